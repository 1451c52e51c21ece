#include "cli/input/usual_nodes.h"

#include <algorithm>

#include "server/tuner/question/knowledge.h"

namespace meshwright {
namespace {

bool LeavesSize(const v1::NodePool& pool) { return !pool.has_devices_per_node(); }

}  // namespace

void FillUsualNodes(std::string_view site_chips, v1::Cluster& cluster) {
  if (std::ranges::none_of(cluster.pools(), LeavesSize)) return;
  const auto knowledge = LoadKnowledge(site_chips);
  if (!knowledge.ok()) return;  // the reader of the question reports it
  for (v1::NodePool& pool : *cluster.mutable_pools()) {
    const auto chip = knowledge->chips.Find(pool.chip());
    if (!LeavesSize(pool) || !chip.ok()) continue;
    pool.set_devices_per_node((*chip)->spec.usual_node.device_count);
  }
}

}  // namespace meshwright
