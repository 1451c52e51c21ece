#include "server/plugins/model_shelf.h"

#include <fmt/format.h>

#include <utility>

#include "search_space/status.h"
#include "server/plugins/output_check.h"
#include "server/plugins/question_wire.h"

namespace meshwright {
namespace {

class HostedPlanModel final : public PlanModel {
 public:
  HostedPlanModel(std::shared_ptr<RunningModel> model, const Problem& problem,
                  RunningModel::Context context)
      : model_(std::move(model)),
        check_(problem),
        context_(std::move(context)),
        version_(model_->Version()) {}
  ~HostedPlanModel() override { model_->Close(context_); }

  [[nodiscard]] const ModelVersion& version() const override { return version_; }

  absl::StatusOr<std::vector<PlanFigures>> Estimate(std::span<const ParallelPlan> plans,
                                                    const BatchOptions& options) override {
    ASSIGN_OR_RETURN(std::vector<PlanFigures> figures, model_->Estimate(context_, plans, options));
    for (std::size_t i = 0; i < plans.size(); ++i) check_.Apply(plans[i], figures[i]);
    return figures;
  }

 private:
  std::shared_ptr<RunningModel> model_;
  OutputCheck check_;
  RunningModel::Context context_;
  ModelVersion version_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PlanModel>> MakePlanModel(std::shared_ptr<RunningModel> model,
                                                         const Problem& problem) {
  RunningModel::Context context = {.problem = &problem,
                                   .key = ToContext(problem).SerializeAsString()};
  if (absl::Status opened = model->Open(context, {}); !opened.ok()) return opened;
  return std::make_unique<HostedPlanModel>(std::move(model), problem, std::move(context));
}

ModelShelf::ModelShelf(std::vector<ModelManifest> manifests, const FailurePolicy& policy,
                       ModelEvent on_event)
    : manifests_(std::move(manifests)), policy_(policy), on_event_(std::move(on_event)) {}

absl::StatusOr<std::unique_ptr<ModelShelf>> ModelShelf::Open(const std::string& folder,
                                                             const FailurePolicy& policy,
                                                             ModelEvent on_event) {
  ASSIGN_OR_RETURN(std::vector<ModelManifest> manifests, LoadManifests(folder));
  return std::unique_ptr<ModelShelf>(
      new ModelShelf(std::move(manifests), policy, std::move(on_event)));
}

absl::StatusOr<std::shared_ptr<RunningModel>> ModelShelf::Find(std::string_view name) {
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

absl::StatusOr<std::unique_ptr<PlanModel>> ModelShelf::OpenModel(std::string_view name,
                                                                 const Problem& problem) {
  ASSIGN_OR_RETURN(std::shared_ptr<RunningModel> model, Find(name));
  return MakePlanModel(std::move(model), problem);
}

}  // namespace meshwright
