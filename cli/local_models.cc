#include "cli/local_models.h"

#include <fmt/format.h>

#include <utility>

#include "cli/terminal.h"
#include "search_space/status.h"

namespace meshwright {

absl::StatusOr<LocalModels> LocalModels::Open(const std::string& folder) {
  LocalModels models;
  if (folder.empty()) return models;
  const auto tell = [](std::string_view event, const std::string& what) {
    if (event != "started") PrintNote(fmt::format("cost model {}: {}", event, what));
  };
  ASSIGN_OR_RETURN(models.shelf_, ModelShelf::Open(folder, {}, tell));
  return models;
}

OpenPlanModel LocalModels::opener() const {
  if (shelf_ == nullptr) return {};
  return [shelf = shelf_.get()](std::string_view name, const Problem& problem,
                                const std::stop_token& cancel) {
    return shelf->OpenModel(name, problem, cancel);
  };
}

absl::StatusOr<LocalModels> RequireModels(const std::string& folder) {
  if (!folder.empty()) return LocalModels::Open(folder);
  return InvalidFields({{.field = "cost-models", .description = "missing; names the folder"}});
}

}  // namespace meshwright
