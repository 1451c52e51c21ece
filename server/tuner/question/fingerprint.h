#pragma once

#include <string>

#include "search_space/spec/chip.h"
#include "search_space/spec/cluster.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// The store files measurements under these digests (Fnv1a128Hex) of the resolved problem. It makes
// no difference if a value was stated or a default, and names that users give are not part of any
// digest. A chip counts by its id, because the catalogue's figures for it may improve.

// Returns true if model, workload and cluster are equal, whatever they are called.
bool IsSameJob(const Problem& a, const Problem& b);

// Returns equal digests if IsSameJob is true.
std::string JobFingerprint(const Problem& problem);
// Covers nodes, chips, links and memory.
std::string HardwareFingerprint(const ClusterSpec& cluster);
// Covers the catalogue's figures of a chip.
std::string ChipFingerprint(const ChipSpec& chip);
// Covers the framework, its version and the facts that the workload states about it.
std::string SoftwareFingerprint(const Problem& problem);

}  // namespace meshwright
