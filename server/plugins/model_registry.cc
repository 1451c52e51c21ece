#include "server/plugins/model_registry.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/digest/sha256.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/plugins/output_check.h"
#include "server/plugins/wire/calibration.h"
#include "server/plugins/wire/question_wire.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

class HostedPlanModel final : public PlanModel {
 public:
  HostedPlanModel(std::shared_ptr<RunningModel> model, RunningModel::Context context,
                  std::vector<std::string> warnings)
      : PlanModel(VersionOf(context), std::move(warnings)),
        model_(std::move(model)),
        check_(*context.problem),
        context_(std::move(context)) {}
  ~HostedPlanModel() override { model_->Close(context_); }

  absl::StatusOr<std::vector<PlanFigures>> Estimate(std::span<const ParallelPlan> plans,
                                                    const BatchOptions& options) override {
    ASSIGN_OR_RETURN(std::vector<PlanFigures> figures, model_->Estimate(context_, plans, options));
    for (std::size_t i = 0; i < plans.size(); ++i) check_.Apply(plans[i], figures[i]);
    return figures;
  }

  absl::StatusOr<std::vector<Seconds>> LowerBounds(std::span<const ParallelPlan> plans,
                                                   const std::stop_token& cancel) override {
    ASSIGN_OR_RETURN(const std::vector<double> said, model_->LowerBounds(context_, plans, cancel));
    std::vector<Seconds> bounds;
    bounds.reserve(said.size());
    for (const double bound : said) {
      bounds.emplace_back(std::isfinite(bound) && bound > 0 ? bound : 0);
    }
    return bounds;
  }

  absl::StatusOr<std::vector<std::string>> Explain(const ParallelPlan& plan,
                                                   const std::stop_token& cancel) override {
    return model_->Explain(context_, plan, cancel);
  }

 private:
  static ModelVersion VersionOf(const RunningModel::Context& context) {
    ModelVersion version = context.version;
    version.calibration = CalibrationName(context.calibration);
    return version;
  }

  std::shared_ptr<RunningModel> model_;
  OutputCheck check_;
  RunningModel::Context context_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PlanModel>> MakePlanModel(std::shared_ptr<RunningModel> model,
                                                         const Problem& problem,
                                                         CalibrationParameters calibration,
                                                         std::vector<std::string> warnings,
                                                         const std::stop_token& cancel) {
  std::string key = Sha256Hex(ToContext(problem, calibration).SerializeAsString());
  RunningModel::Context context = {
      .problem = &problem, .calibration = std::move(calibration), .key = std::move(key)};
  if (absl::Status opened = model->Open(context, cancel); !opened.ok()) return opened;
  for (const std::string& warning : context.warnings) {
    warnings.push_back(fmt::format("cost model {}: {}", context.version.name, warning));
  }
  return std::make_unique<HostedPlanModel>(std::move(model), std::move(context),
                                           std::move(warnings));
}

ModelRegistry::ModelRegistry(std::string folder, std::vector<ModelManifest> manifests,
                             const FailurePolicy& policy, ModelEvent on_event)
    : folder_(std::move(folder)),
      manifests_(std::move(manifests)),
      policy_(policy),
      on_event_(std::move(on_event)) {}

absl::StatusOr<std::unique_ptr<ModelRegistry>> ModelRegistry::Open(const std::string& folder,
                                                                   const FailurePolicy& policy,
                                                                   ModelEvent on_event) {
  ASSIGN_OR_RETURN(std::vector<ModelManifest> manifests, LoadManifests(folder));
  return std::unique_ptr<ModelRegistry>(
      new ModelRegistry(folder, std::move(manifests), policy, std::move(on_event)));
}

absl::StatusOr<std::shared_ptr<RunningModel>> ModelRegistry::Find(std::string_view name) {
  ASSIGN_OR_RETURN(ModelManifest manifest, FindManifest(manifests_, name));
  const std::lock_guard lock(mutex_);
  auto& running = running_[manifest.name];
  if (running == nullptr) {
    const auto tell = [on_event = on_event_, id = manifest.name](std::string_view event,
                                                                 const std::string& what) {
      if (on_event) on_event(event, fmt::format("model={} {}", id, what));
    };
    running = std::make_shared<RunningModel>(std::move(manifest), policy_, tell);
  }
  return running;
}

absl::StatusOr<std::unique_ptr<PlanModel>> ModelRegistry::OpenModel(std::string_view name,
                                                                    const Problem& problem,
                                                                    const std::stop_token& cancel) {
  ASSIGN_OR_RETURN(std::shared_ptr<RunningModel> model, Find(name));
  Chosen chosen = CalibrationOf(name, problem.cluster.pools.front().chip.id);
  return MakePlanModel(std::move(model), problem, std::move(chosen.parameters),
                       std::move(chosen.warnings), cancel);
}

ModelRegistry::Chosen ModelRegistry::CalibrationOf(std::string_view name,
                                                   std::string_view chip) const {
  const auto stored = LoadCalibration(folder_, name, chip);
  if (stored.ok() && !stored->has_value()) return {};
  std::string why;
  if (!stored.ok()) {
    why = std::string(stored.status().message());
  } else if (const auto manifest = FindManifest(manifests_, name);
             manifest.ok() && (*stored)->checksum != manifest->sha256) {
    why = "it was fitted by a model with another SHA-256, " + (*stored)->checksum;
  } else {
    return {.parameters = (*stored)->fitted.parameters};
  }
  if (on_event_) on_event_("not_calibrated", fmt::format("model={} chip={} {}", name, chip, why));
  return {.warnings = {fmt::format("cost model {}: its calibration for {} is not used: {}", name,
                                   chip, why)}};
}

}  // namespace meshwright
