#include "cli/local/local_models.h"

#include <fmt/format.h>

#include <utility>

#include "cli/program/terminal.h"
#include "search_space/base/status.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

absl::StatusOr<LocalModels> LocalModels::Open(const std::string& folder) {
  LocalModels models;
  if (folder.empty()) return models;
  const auto tell = [](std::string_view event, const std::string& what) {
    // The command itself reports a model that did not start or open.
    if (event == "started" || event == "not_started" || event == "not_opened") return;
    PrintNote(fmt::format("cost model {}: {}", event, what));
  };
  ASSIGN_OR_RETURN(models.registry_, ModelRegistry::Open(folder, {}, tell));
  return models;
}

OpenPlanModel LocalModels::opener() const {
  if (registry_ == nullptr) return {};
  return [registry = registry_.get()](std::string_view name, const Problem& problem,
                                      const std::stop_token& cancel) {
    return registry->OpenModel(name, problem, cancel);
  };
}

absl::Status RefuseServer(const GlobalFlags& flags) {
  if (flags.server.empty()) return absl::OkStatus();
  return WithReason(
      InvalidFields(
          {{.field = "--server",
            .description = flags.server + "; must be absent: this command runs the model itself, "
                                          "so run it on the model's machine with --cost-models"}}),
      "USAGE");
}

absl::StatusOr<LocalModels> RequireModels(const GlobalFlags& flags) {
  RETURN_IF_ERROR(RefuseServer(flags));
  if (!flags.cost_models.empty()) return LocalModels::Open(flags.cost_models);
  return WithReason(
      absl::FailedPreconditionError("no folder of cost models was given (--cost-models)"),
      "NO_COST_MODELS");
}

}  // namespace meshwright
