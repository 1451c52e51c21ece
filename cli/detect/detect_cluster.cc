#include "cli/detect/detect_cluster.h"

#include <algorithm>

#include "cli/detect/kubernetes_nodes.h"
#include "cli/detect/local_devices.h"
#include "cli/detect/slurm_nodes.h"
#include "search_space/spec/cluster.h"

namespace meshwright {

std::optional<ClusterPlace> ParseClusterPlace(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view word = text.substr(0, colon);
  if (!IsReservedClusterName(word)) return std::nullopt;
  const std::string_view part = text.substr(std::min(colon + 1, text.size()));
  return ClusterPlace{.word = std::string(word), .part = std::string(part)};
}

absl::StatusOr<DetectedCluster> DetectCluster(const ClusterPlace& place, const StatedFacts& stated,
                                              const CommandRunner& run) {
  if (place.word == "slurm") return DetectSlurm(place.part, stated, run);
  if (place.word == "kubernetes") return DetectKubernetes(place.part, stated, run);
  if (!place.part.empty()) {
    return absl::InvalidArgumentError("local takes no suffix; must be exactly `local`");
  }
  return DetectLocal(stated, run, {});
}

}  // namespace meshwright
