#include "server/plugins/wire/declared.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "search_space/spec/cluster.h"
#include "server/plugins/wire/question_wire.h"

namespace meshwright {
namespace {

// A declared name that ends in * stands for all names that begin like it.
bool IsAmong(const std::vector<std::string>& declared, std::string_view name) {
  return std::ranges::any_of(declared, [&](const std::string& known) {
    if (!known.ends_with('*')) return known == name;
    return name.starts_with(std::string_view(known).substr(0, known.size() - 1));
  });
}

void AddMissing(const std::vector<std::string>& declared, std::string_view needed,
                std::vector<std::string>& missing) {
  if (declared.empty() || IsAmong(declared, needed)) return;
  missing.push_back(fmt::format("it only models {}, not {}", fmt::join(declared, ", "), needed));
}

}  // namespace

std::vector<std::string> Undeclared(const ModelInfo& model, const Problem& problem) {
  std::vector<std::string> missing;
  for (const NodePool& pool : problem.cluster.pools) {
    AddMissing(model.chips, pool.chip.id, missing);
    if (pool.physical_devices_per_node.has_value()) {
      missing.push_back(
          fmt::format("the contract does not support devices that share a physical one "
                      "(physical_devices_per_node = {})",
                      *pool.physical_devices_per_node));
    }
  }
  AddMissing(model.precisions, Word(problem.workload.precision), missing);
  for (const std::string_view needed : OperatorsOf(problem.model)) {
    AddMissing(model.operators, needed, missing);
  }
  return missing;
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
         absl::IsFailedPrecondition(status);
}

}  // namespace meshwright
