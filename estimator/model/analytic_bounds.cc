// What plans that share some dimensions are not below, in time and in memory.
#include "estimator/layer/layer_cost.h"
#include "estimator/layer/parameters.h"
#include "estimator/layer/unit_costs.h"
#include "estimator/model/analytic_model.h"
#include "estimator/model/data_parallel.h"
#include "estimator/model/memory.h"
#include "estimator/model/stage.h"
#include "estimator/pipeline/simulation.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/plan.h"

namespace meshwright {

std::optional<Seconds> AnalyticModel::LeastTimeBelow(const ParallelPlan& plan) {
  if (!problem_.profile.gradient_accumulation_is_fused) return std::nullopt;  // sharding matters
  const StageDevices devices = BareDevices(plan);
  auto found = whole_models_.find(devices.sharding);
  if (found == whole_models_.end()) {
    const UnitTimes unit = PriceUnits(ContextOf(devices.sharding), SiteOf(devices), 0);
    found = whole_models_.emplace(devices.sharding, WholeModel(unit)).first;
  }
  return EvenWork(plan, found->second);
}

std::optional<Seconds> AnalyticModel::LeastTimeOfAnyExperts(const ParallelPlan& plan) {
  if (!problem_.profile.gradient_accumulation_is_fused) return std::nullopt;
  StageDevices devices = BareDevices(plan);
  LayerSharding& sharding = devices.sharding;
  sharding.expert_parallel = sharding.expert_tensor_parallel = 1;
  sharding.expert_group.reset();
  sharding.pipeline_leaves_node = false;  // which the order of ranks decides
  auto found = least_whole_models_.find(sharding);
  if (found == least_whole_models_.end()) {
    const UnitTimes unit = PriceUnitsWithBestExperts(ContextOf(sharding), SiteOf(devices));
    found = least_whole_models_.emplace(sharding, WholeModel(unit)).first;
  }
  return EvenWork(plan, found->second);
}

// The work of all stages, evenly on all devices; host and device time hide one another at best.
Seconds AnalyticModel::EvenWork(const ParallelPlan& plan, Seconds whole_model) {
  return Bound(plan, MicroBatchCount(plan, problem_.workload.global_batch_size) * whole_model /
                         plan.pipeline_parallel);
}

Seconds AnalyticModel::WholeModel(const UnitTimes& unit) const {
  const int dense = DenseLayerCount(problem_.model, 0, problem_.model.layer_count);
  PassTime work =
      unit.embedding.forward + unit.embedding.backward + unit.head.forward + unit.head.backward;
  AddScaled(work, unit.dense.forward + unit.dense.backward, dense);
  AddScaled(work, unit.moe.forward + unit.moe.backward, problem_.model.layer_count - dense);
  AddScaled(work, unit.mtp.forward + unit.mtp.backward, problem_.model.mtp_layer_count);
  return DeviceWithHost(work.device, work.host);
}

Seconds AnalyticModel::LeastTimeOfPipeline(const ParallelPlan& plan) {
  BuildRuns(plan);
  PriceRuns();
  for (StageRun& run : runs_) run.work = TimeOf(run.stage, StageTotal() > 1).work;
  return Bound(plan, LeastPipelineTime({.schedule = plan.schedule,
                                        .micro_batches = MicroBatches(),
                                        .virtual_stages = plan.virtual_pipeline,
                                        .stages = StageWorks()}));
}

Seconds AnalyticModel::Bound(const ParallelPlan& plan, Seconds pipeline) {
  return kRoundingSlack * TimeRatio(plan) * (pipeline + problem_.profile.fixed_per_step);
}

// The mean of the stages, which the fullest is not below: all states in the finest sharding that is
// allowed, and of one micro-batch the inputs of all layers that stay on the device. `devices` are
// the plan's bare ones.
Bytes AnalyticModel::LeastMeanBelow(const ParallelPlan& plan, const MostOffloaded& most,
                                    StageDevices devices) const {
  const FrameworkProfile& profile = problem_.profile;
  const int p = plan.pipeline_parallel;
  const UnitCosts unit = MeasureParameters(ContextOf(devices.sharding));
  devices.unit = &unit;
  Stage whole = {.devices = &devices};
  whole.dense_layers = DenseLayerCount(problem_.model, 0, problem_.model.layer_count);
  whole.moe_layers = problem_.model.layer_count - whole.dense_layers;
  whole.mtp_layers = problem_.model.mtp_layer_count;
  whole.has_embedding = whole.has_head = true;
  const StageParameters parameters = ParametersOf(whole, problem_.model);
  const StateBytes& bytes = state_bytes_;
  const StateSharding sharding = meshwright::ShardingOf(plan, devices);
  const int finest = p > 1 ? profile.largest_zero_stage_with_pipeline : 3;
  const double shared =
      parameters.dense / sharding.dense_group + parameters.expert / sharding.expert_group;
  const double all = parameters.dense + parameters.expert;
  const auto least = [&](int stage) { return finest >= stage ? shared : all; };
  const double states = bytes.weight * least(3) + (bytes.gradient + bytes.autograd) * least(2) +
                        bytes.optimizer * (1 - most.optimizer) * least(1) + bytes.unsharded * all;
  const double inputs = (1 - most.activations) * static_cast<double>(problem_.model.layer_count) *
                        static_cast<double>(unit.boundary.count);
  return RoundedBytes((states + inputs) / p);
}

Bytes AnalyticModel::LeastMemoryBelow(const ParallelPlan& plan, const MostOffloaded& most) {
  const StageDevices bare = BareDevices(plan);
  const Bytes mean = LeastMeanBelow(plan, most, bare);
  return Reserved({.peak = Scale(mean, calibration_.memory_ratio)}, *bare.pool);
}

bool AnalyticModel::HasFailedBelow(const ParallelPlan& plan, const MostOffloaded& most) {
  if (!calibration_.out_of_memory.has_value()) return false;
  const StageDevices bare = BareDevices(plan);
  return HasFailed({.peak = LeastMeanBelow(plan, most, bare)}, *bare.pool);
}

}  // namespace meshwright
