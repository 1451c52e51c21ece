#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/detect/detected_cluster.h"
#include "search_space/base/units.h"

namespace meshwright {

// A node of Kubernetes, as `kubectl get nodes -o json` prints it.
struct KubernetesNode {
  std::string name = {};
  NodeKind kind = {};  // its chip is a label's value
  Bytes memory = {};   // of the host; 0: not known
  bool is_usable = true;
  bool has_slices = false;  // it has MIG slices as resources of their own
  bool operator==(const KubernetesNode&) const = default;
};

// Reads the answer of `kubectl get nodes --output json`. Errors: INVALID_ARGUMENT if the text is no
// list of nodes.
absl::StatusOr<std::vector<KubernetesNode>> ParseKubernetesNodes(const std::string& text);

// Finds the nodes of the cluster of kubectl's context, or those that a label selector chooses.
// INVALID_ARGUMENT if they are not of one kind.
absl::StatusOr<DetectedCluster> DetectKubernetes(const std::string& selector,
                                                 const StatedFacts& stated,
                                                 const CommandRunner& run);

}  // namespace meshwright
