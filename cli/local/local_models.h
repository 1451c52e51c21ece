#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/program/program.h"
#include "server/plugins/model_shelf.h"
#include "server/tuner/question/plan_model.h"

namespace meshwright {

// The vendors' models of --cost-models, run by this program. What befalls them is told on stderr.
class LocalModels {
 public:
  // An empty folder: there are none.
  static absl::StatusOr<LocalModels> Open(const std::string& folder);

  [[nodiscard]] ModelShelf* shelf() const { return shelf_.get(); }  // null: there are none
  [[nodiscard]] OpenPlanModel opener() const;                       // this outlives it

 private:
  std::unique_ptr<ModelShelf> shelf_;
};

// Of a command that runs a model on this machine. INVALID_ARGUMENT, USAGE: a server was named.
absl::Status RefuseServer(const GlobalFlags& flags);

// The same, of the models of the folder, which must be given: else FAILED_PRECONDITION,
// NO_COST_MODELS.
absl::StatusOr<LocalModels> RequireModels(const GlobalFlags& flags);

}  // namespace meshwright
