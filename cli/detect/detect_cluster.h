#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/detect/detected_cluster.h"

namespace meshwright {

// A place to look for a cluster: `slurm`, `slurm:PARTITION`, `kubernetes`, `kubernetes:SELECTOR` or
// `local`.
struct ClusterPlace {
  std::string word = {};  // one of kReservedClusterNames
  std::string part = {};  // partition or label selector; empty: all nodes
  bool operator==(const ClusterPlace&) const = default;
};

// Returns nullopt if the text is the path of a file.
std::optional<ClusterPlace> ParseClusterPlace(std::string_view text);

// Asks the tools of a place for its nodes and devices.
absl::StatusOr<DetectedCluster> DetectCluster(const ClusterPlace& place, const StatedFacts& stated,
                                              const CommandRunner& run);

}  // namespace meshwright
