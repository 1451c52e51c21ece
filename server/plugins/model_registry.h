#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/plugins/manifest.h"
#include "server/plugins/running_model.h"
#include "server/plugins/wire/calibration.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// The models of an administrator's folder. Each runs once, from the first question until the
// registry goes. Safe from any thread.
class ModelRegistry {
 public:
  // Reads the manifests and starts nothing.
  static absl::StatusOr<std::unique_ptr<ModelRegistry>> Open(const std::string& folder,
                                                             const FailurePolicy& policy = {},
                                                             ModelEvent on_event = {});

  [[nodiscard]] const std::vector<ModelManifest>& manifests() const { return manifests_; }

  // Finds the model of a name; NOT_FOUND lists the names that there are.
  absl::StatusOr<std::shared_ptr<RunningModel>> Find(std::string_view name);
  // Implements OpenPlanModel (server/tuner/question/plan_model.h): returns a model that has started
  // and is willing to answer for the problem, which must outlive it. All its answers are checked
  // (output_check.h). It gets the parameters of `calibrations/` for the problem's chip if they
  // belong to this very program; otherwise there is a warning.
  absl::StatusOr<std::unique_ptr<PlanModel>> OpenModel(std::string_view name,
                                                       const Problem& problem,
                                                       const std::stop_token& cancel = {});

 private:
  struct Chosen {
    CalibrationParameters parameters = {};
    std::vector<std::string> warnings = {};
  };
  ModelRegistry(std::string folder, std::vector<ModelManifest> manifests,
                const FailurePolicy& policy, ModelEvent on_event);
  // Reads the calibration for each question, so that a new one counts while the server runs.
  [[nodiscard]] Chosen CalibrationOf(std::string_view name, std::string_view chip) const;

  const std::string folder_;
  const std::vector<ModelManifest> manifests_;
  const FailurePolicy policy_;
  const ModelEvent on_event_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<RunningModel>, std::less<>> running_;
};

// Makes a model for one problem from a running model. `warnings` and the model's own about the
// problem become its warnings.
absl::StatusOr<std::unique_ptr<PlanModel>> MakePlanModel(std::shared_ptr<RunningModel> model,
                                                         const Problem& problem,
                                                         CalibrationParameters calibration = {},
                                                         std::vector<std::string> warnings = {},
                                                         const std::stop_token& cancel = {});

}  // namespace meshwright
