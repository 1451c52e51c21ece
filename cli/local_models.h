#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/plugins/model_shelf.h"
#include "server/tuner/plan_model.h"

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

// The models of a folder that must be given. INVALID_ARGUMENT: it is not.
absl::StatusOr<LocalModels> RequireModels(const std::string& folder);

}  // namespace meshwright
