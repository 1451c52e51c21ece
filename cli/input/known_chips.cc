#include "cli/input/known_chips.h"

#include <algorithm>
#include <utility>

#include "search_space/base/status.h"
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

absl::StatusOr<std::string> ChipIdOf(std::string_view site_chips, const std::string& name) {
  if (name.empty()) return name;
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(site_chips));
  const auto chip = knowledge.chips.Find(name);
  if (chip.ok()) return (*chip)->spec.id;
  if (Reason(chip.status()) != "AMBIGUOUS_CHIP") return name;
  std::string description(chip.status().message());
  if (constexpr std::string_view kField = "chip = "; description.starts_with(kField)) {
    description.erase(0, kField.size());
  }
  return InvalidFields({{.field = "chip", .description = std::move(description)}});
}

}  // namespace meshwright
