// What plans that share some dimensions are not below, in time and in memory.
#include "estimator/analytic_model.h"
#include "estimator/data_parallel.h"
#include "estimator/memory.h"
#include "estimator/parameters.h"

namespace meshwright {

std::optional<Seconds> AnalyticModel::LeastTimeBelow(const ParallelPlan& plan) {
  if (!problem_.profile.gradient_accumulation_is_fused) return std::nullopt;  // sharding matters
  BuildRuns(plan);
  // The work of all stages, evenly on all devices; host and device time hide one another at best.
  UnitCosts& costs = UnitsOf(runs_.front().stage);
  if (!costs.whole_model.has_value()) {
    costs.whole_model =
        WholeModel(costs.times != nullptr ? *costs.times : Price(runs_.front().stage));
  }
  return Bound(plan, MicroBatches() * *costs.whole_model / plan.pipeline_parallel);
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
  works_.clear();
  for (const StageRun& run : runs_) {
    const StageTime time = TimeOf(run.stage, StageTotal() > 1);
    works_.insert(works_.end(), static_cast<std::size_t>(run.count), time.work);
  }
  return Bound(plan, LeastPipelineTime({.schedule = plan.schedule,
                                        .micro_batches = MicroBatches(),
                                        .virtual_stages = plan.virtual_pipeline,
                                        .stages = works_}));
}

Seconds AnalyticModel::Bound(const ParallelPlan& plan, Seconds pipeline) {
  return kRoundingSlack * TimeRatio(plan) * (pipeline + problem_.profile.fixed_per_step);
}

// The mean of the stages, which the fullest is not below: all states in the finest sharding that is
// allowed, and of one micro-batch the inputs of all layers.
Bytes AnalyticModel::LeastMemoryBelow(const ParallelPlan& plan, double most_offloaded) {
  BuildRuns(plan);
  const FrameworkProfile& profile = problem_.profile;
  const int p = plan.pipeline_parallel;
  Stage whole = runs_.front().stage;
  whole.dense_layers = DenseLayerCount(problem_.model, 0, problem_.model.layer_count);
  whole.moe_layers = problem_.model.layer_count - whole.dense_layers;
  whole.mtp_layers = problem_.model.mtp_layer_count;
  whole.has_embedding = whole.has_head = true;
  const StageParameters parameters = ParametersOf(whole, problem_.model);
  const StateBytes bytes = BytesPerParameter(problem_.workload, profile);
  const StateSharding sharding = meshwright::ShardingOf(plan, whole);
  const int finest = p > 1 ? profile.largest_zero_stage_with_pipeline : 3;
  const double shared =
      parameters.dense / sharding.dense_group + parameters.expert / sharding.expert_group;
  const double all = parameters.dense + parameters.expert;
  const auto least = [&](int stage) { return finest >= stage ? shared : all; };
  const double states = bytes.weight * least(3) + (bytes.gradient + bytes.autograd) * least(2) +
                        bytes.optimizer * (1 - most_offloaded) * least(1) + bytes.unsharded * all;
  const double inputs = static_cast<double>(problem_.model.layer_count) *
                        static_cast<double>(whole.unit->boundary.count);
  const Bytes mean = RoundedBytes((states + inputs) / p);
  StageMemory memory = {.peak = Scale(mean, calibration_.memory_ratio)};
  return Reserved(memory, whole);
}

}  // namespace meshwright
