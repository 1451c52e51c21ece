#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/detect/detected_cluster.h"
#include "search_space/base/units.h"

namespace meshwright {

// The output of scontrol(1) of Slurm 22.05.

struct SlurmNode {
  std::string name = {};
  std::string state = {};  // "IDLE", "MIXED+DRAIN", "DOWN*"
  std::vector<std::string> partitions = {};
  std::vector<NodeKind> devices = {};  // one for each type of accelerator (gres.conf(5))
  Bytes memory = {};                   // of the host; 0: not known
  bool operator==(const SlurmNode&) const = default;
};

// Parses `scontrol --oneliner show node`, and skips lines that describe no node.
std::vector<SlurmNode> ParseSlurmNodes(std::string_view text);

// Returns true if jobs can run on the node, now or after the jobs that it runs.
bool IsUsable(const SlurmNode& node);

// A leaf switch of topology.conf(5) and the nodes below it.
struct SlurmSwitch {
  std::string name = {};
  std::vector<std::string> nodes = {};
  bool operator==(const SlurmSwitch&) const = default;
};

// Parses `scontrol show topology`, which is empty without the plugin topology/tree.
std::vector<SlurmSwitch> ParseSlurmTopology(std::string_view text);

// Finds the nodes of Slurm, or those of one partition. INVALID_ARGUMENT if they are not of one
// kind.
absl::StatusOr<DetectedCluster> DetectSlurm(const std::string& partition, const StatedFacts& stated,
                                            const CommandRunner& run);

}  // namespace meshwright
