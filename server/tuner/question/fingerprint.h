#pragma once

#include <string>
#include <string_view>

#include "search_space/spec/chip.h"
#include "search_space/spec/cluster.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// 128 bits in hexadecimal: tells texts apart that nobody chose in order to deceive.
std::string Digest(std::string_view text);

// What the store files measurements under. Each is a digest of the resolved problem, so that what
// is stated and what is a default's make no difference; names that users give count for none of
// them. A chip counts by its id: its figures are the catalogue's, which may improve.

// Equal where IsSameJob (calibrate.h) is true.
std::string JobFingerprint(const Problem& problem);
// Nodes, chips, links and memory.
std::string HardwareFingerprint(const ClusterSpec& cluster);
// What the catalogue says of a chip.
std::string ChipFingerprint(const ChipSpec& chip);
// The framework, its version and the facts that the workload states of it.
std::string SoftwareFingerprint(const Problem& problem);

}  // namespace meshwright
