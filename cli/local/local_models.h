#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/program/program.h"
#include "server/plugins/model_registry.h"
#include "server/tuner/question/plan_model.h"

namespace meshwright {

// The vendors' models of --cost-models, run by this program. Their events are told on stderr.
class LocalModels {
 public:
  // Opens the models of a folder; none if `folder` is empty.
  static absl::StatusOr<LocalModels> Open(const std::string& folder);

  [[nodiscard]] ModelRegistry* registry() const {
    return registry_.get();
  }                                            // null if there are no models
  [[nodiscard]] OpenPlanModel opener() const;  // must not outlive this

 private:
  std::unique_ptr<ModelRegistry> registry_;
};

// Returns INVALID_ARGUMENT with reason USAGE if a server was named: the command runs a model on
// this machine.
absl::Status RefuseServer(const GlobalFlags& flags);

// Does the same and opens the models of the folder. FAILED_PRECONDITION with reason NO_COST_MODELS
// if none was given.
absl::StatusOr<LocalModels> RequireModels(const GlobalFlags& flags);

}  // namespace meshwright
