#include "estimator/model/plan_bounds.h"

#include <algorithm>

#include "estimator/layer/layer_program.h"
#include "estimator/layer/parameters.h"
#include "estimator/layer/unit_costs.h"
#include "estimator/model/data_parallel.h"
#include "estimator/model/memory.h"
#include "estimator/model/model_caches.h"
#include "estimator/model/stage.h"
#include "estimator/model/stage_devices.h"
#include "estimator/model/stage_runs.h"
#include "estimator/model/time_model.h"
#include "estimator/pipeline/simulation.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/terms/sharding.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/model.h"

namespace meshwright {

std::optional<Seconds> PlanBounds::LeastTimeIfPriced(const ParallelPlan& plan) {
  const StageRuns stages = model_.StagesOf(plan);
  ModelCaches& caches = model_.caches();
  const bool is_priced = std::ranges::all_of(stages.devices(), [&](const StageDevices& devices) {
    return caches.units.KnownTimesOf(devices) != nullptr;
  });
  if (!is_priced) return std::nullopt;
  return model_.time().Of(stages, PipelineModel::kLeast, caches).step * model_.TimeRatio(plan);
}

std::optional<Seconds> PlanBounds::LeastTimeBelow(const ParallelPlan& plan) {
  const EstimatorProblem& problem = model_.problem();
  if (!problem.profile.gradient_accumulation_is_fused) return std::nullopt;  // sharding matters
  LayerSharding sharding = BareDevices(plan, problem).sharding;
  // Neither virtual stages nor recomputation are chosen yet.
  sharding.hides_exchange = problem.workload.overlap.expert_parallel && plan.expert_parallel > 1;
  return StepWithEvenWork(plan, model_.caches().units.WholeModelTime(sharding));
}

std::optional<Seconds> PlanBounds::LeastTimeOfAnyExperts(const ParallelPlan& plan) {
  const EstimatorProblem& problem = model_.problem();
  if (!problem.profile.gradient_accumulation_is_fused) return std::nullopt;
  LayerSharding sharding = BareDevices(plan, problem).sharding;
  sharding.expert_parallel = sharding.expert_tensor_parallel = 1;
  sharding.hides_exchange = false;
  sharding.expert_group.reset();
  sharding.pipeline_leaves_node = false;  // depends on the order of ranks
  return StepWithEvenWork(plan, model_.caches().units.WholeModelTimeWithBestExperts(sharding));
}

// Spreads the work of all stages evenly over all devices.
Seconds PlanBounds::StepWithEvenWork(const ParallelPlan& plan, Seconds whole_model) {
  return StepWith(plan, MicroBatchCount(plan, model_.problem().workload.global_batch_size) *
                            whole_model / plan.pipeline_parallel);
}

// Returns the time of a step that has at least this much of its pipeline.
Seconds PlanBounds::StepWith(const ParallelPlan& plan, Seconds pipeline) {
  return kRoundingSlack * model_.TimeRatio(plan) *
         (pipeline + model_.problem().profile.fixed_per_step);
}

Seconds PlanBounds::LeastTimeOfPipeline(const ParallelPlan& plan) {
  const StageRuns stages = model_.StagesOf(plan);
  return StepWith(plan, model_.time().LeastPipeline(stages, model_.caches()));
}

int PlanBounds::FinestZeroStage(const ParallelPlan& plan) const {
  return plan.pipeline_parallel > 1 ? model_.problem().profile.largest_zero_stage_with_pipeline : 3;
}

// Returns the mean of the stages, which the fullest one does not undercut: all states as this stage
// of ZeRO shards them and, for one micro-batch, the inputs of all layers that stay on the device.
// `devices` are the plan's bare ones.
Bytes PlanBounds::LeastMean(const ParallelPlan& plan, int zero_stage, const MostOffloaded& most,
                            StageDevices devices) const {
  const EstimatorProblem& problem = model_.problem();
  const ModelSpec& model = problem.model;
  const FrameworkProfile& profile = problem.profile;
  const int p = plan.pipeline_parallel;
  const LayerList& layers = model_.caches().units.layers();
  const UnitCosts unit = MeasureParameters({.model = model,
                                            .workload = problem.workload,
                                            .profile = profile,
                                            .sharding = devices.sharding},
                                           layers);
  devices.unit = &unit;
  Stage whole = {.devices = &devices};
  whole.layers = layers.Count(0, model.layer_count);
  whole.layer_count = model.layer_count;
  whole.mtp_layers = model.mtp_layer_count;
  whole.has_embedding = whole.has_head = true;
  const StageParameters parameters = ParametersOf(whole, model);
  const StateBytes& bytes = model_.memory().state_bytes();
  const StateSharding sharding = StateShardingOf(plan, devices);
  const double shared =
      parameters.dense / sharding.dense_group + parameters.expert / sharding.expert_group;
  const double all = parameters.dense + parameters.expert;
  const auto least = [&](int stage) { return zero_stage >= stage ? shared : all; };
  const double states = bytes.weight * least(3) + (bytes.gradient + bytes.autograd) * least(2) +
                        bytes.optimizer * (1 - most.optimizer) * least(1) + bytes.unsharded * all;
  const double inputs = (1 - most.activations) * static_cast<double>(model.layer_count) *
                        static_cast<double>(unit.boundary.count);
  return RoundedBytes((states + inputs) / p);
}

Bytes PlanBounds::LeastMemoryBelow(const ParallelPlan& plan, const MostOffloaded& most) const {
  const StageDevices bare = BareDevices(plan, model_.problem());
  const Bytes mean = LeastMean(plan, FinestZeroStage(plan), most, bare);
  return model_.memory().Reserved({.peak = mean}, *bare.pool);
}

Bytes PlanBounds::LeastMemoryOfZero(const ParallelPlan& plan, const MostOffloaded& most) const {
  const StageDevices bare = BareDevices(plan, model_.problem());
  const Bytes mean = LeastMean(plan, plan.zero_stage, most, bare);
  return model_.memory().Reserved({.peak = mean}, *bare.pool);
}

bool PlanBounds::HasFailedBelow(const ParallelPlan& plan, const MostOffloaded& most) const {
  if (!model_.calibration().out_of_memory.has_value()) return false;
  const StageDevices bare = BareDevices(plan, model_.problem());
  const Bytes mean = LeastMean(plan, FinestZeroStage(plan), most, bare);
  return model_.memory().HasFailed({.peak = mean}, *bare.pool);
}

}  // namespace meshwright
