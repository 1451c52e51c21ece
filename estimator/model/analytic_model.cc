#include "estimator/model/analytic_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>

#include "estimator/learning/error_sources.h"
#include "estimator/learning/interval.h"
#include "estimator/learning/run_residuals.h"
#include "estimator/model/device_sharing.h"
#include "estimator/model/forward_flops.h"
#include "estimator/model/memory.h"
#include "estimator/model/node_crossings.h"
#include "estimator/model/stage.h"
#include "estimator/terms/matmul.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/stage_places.h"

namespace meshwright {
namespace {

// Probability of fitting that is left when a measured plan of this size or less ran out of memory,
// although the model has room (docs/cost_model/intervals.md).
constexpr double kContradicted = 0.1;

}  // namespace

AnalyticModel::AnalyticModel(const EstimatorProblem& problem, const Calibration& calibration)
    : problem_(problem),
      calibration_(calibration),
      memory_(problem, calibration),
      time_(problem, calibration),
      model_flops_per_token_(3 * ForwardFlopsPerToken(problem)),
      caches_(problem) {}

StageRuns AnalyticModel::StagesOf(const ParallelPlan& plan) {
  return StageRuns(plan, problem_, caches_.units, caches_.splits);
}

double AnalyticModel::TimeRatio(const ParallelPlan& plan) {
  if (calibration_.time.points.empty()) return calibration_.time_ratio;
  const PlanPoint point = PointOf(plan, problem_);
  std::optional<TimeRatioAt>& last = caches_.last_time_ratio;
  if (!last.has_value() || last->point != point) {
    last = {.point = point,
            .ratio = calibration_.time_ratio * std::exp(PlanLogFactor(calibration_.time, point))};
  }
  return last->ratio;
}

PlanPrices AnalyticModel::Priced(const ParallelPlan& plan, PipelineModel model) {
  return PlanPrices(plan, model,
                    {.problem = problem_, .memory = memory_, .time = time_, .caches = caches_});
}

MemoryCheck AnalyticModel::CheckMemory(const ParallelPlan& plan) {
  const PlanMemory memory = plan.replica_groups.empty()
                                ? memory_.Of(StagesOf(plan))
                                : Priced(plan, PipelineModel::kClosedForm).memory();
  return {
      .reserved_memory = memory.reserved, .fits = memory.fits, .fits_device = memory.fits_device};
}

QuickEstimate AnalyticModel::QuickBy(PipelineModel model, const ParallelPlan& plan) {
  if (!plan.replica_groups.empty()) {
    const PlanPrices priced = Priced(plan, model);
    return {.step_time = priced.slowest().time.step * TimeRatio(plan),
            .reserved_memory = priced.memory().reserved,
            .fits = priced.memory().fits};
  }
  const StageRuns stages = StagesOf(plan);
  const PlanMemory memory = memory_.Of(stages);
  const PlanTime time = time_.Of(stages, model, caches_);
  return {.step_time = time.step * TimeRatio(plan),
          .reserved_memory = memory.reserved,
          .fits = memory.fits};
}

QuickEstimate AnalyticModel::Quick(const ParallelPlan& plan) {
  return QuickBy(PipelineModel::kSimulated, plan);
}

QuickEstimate AnalyticModel::ClosedForm(const ParallelPlan& plan) {
  return QuickBy(PipelineModel::kClosedForm, plan);
}

Timeline AnalyticModel::TimelineOf(const ParallelPlan& plan) {
  const PlanPrices priced = Priced(plan, PipelineModel::kSimulated);
  const StageRuns& stages = priced.slowest().stages;
  const PlanTime& time = priced.slowest().time;
  const double ratio = TimeRatio(plan);
  Timeline timeline = {.operations = time_.OperationsOf(stages, time, caches_),
                       .pipeline = time.pipeline * ratio,
                       .communication = time.tail.communication * ratio,
                       .optimizer = time.tail.optimizer * ratio,
                       .fixed = problem_.profile.fixed_per_step * ratio,
                       .step = time.step * ratio};
  for (ScheduledOperation& operation : timeline.operations) {
    operation.start *= time.stretch * ratio;
    operation.end *= time.stretch * ratio;
  }
  return timeline;
}

Estimate AnalyticModel::Full(const ParallelPlan& plan) {
  const PlanPrices priced = Priced(plan, PipelineModel::kSimulated);
  const StageRuns& stages = priced.slowest().stages;
  const PlanMemory& memory = priced.memory();
  const PlanTime& time = priced.slowest().time;
  const double ratio = TimeRatio(plan);
  Estimate estimate;
  estimate.tier = stages.stage_count() > 1 ? Tier::kSimulated : Tier::kClosedForm;
  estimate.step_time = time.step * ratio;
  estimate.breakdown = time_.BreakdownOf(stages, time, caches_);
  for (Seconds& part : estimate.breakdown) part *= ratio;
  for (const PricedPipeline& pipeline : priced.pipelines()) {
    for (int device = 0; device < pipeline.stages.stage_count(); ++device) {
      const NodePool& pool = *pipeline.stages.StageAt(device).devices->pool;
      estimate.stage_memory.push_back(
          ScaledMemory(memory_.OfDevice(pipeline.stages, device), memory_.RatioOf(pool)));
    }
  }
  estimate.busiest_stage = memory.fullest;
  estimate.memory_breakdown =
      estimate.stage_memory[static_cast<std::size_t>(memory.fullest)].breakdown;
  estimate.peak_memory = memory.peak;
  estimate.reserved_memory = memory.reserved;
  estimate.memory_capacity = memory.capacity;
  estimate.fits = memory.fits;
  FillRates(plan, priced, estimate);
  if (StagesNamePools(plan)) FillStages(plan, priced, estimate);
  return estimate;
}

// Fills in the figures of stages that name their pools, and the nodes that they leave idle.
void AnalyticModel::FillStages(const ParallelPlan& plan, const PlanPrices& priced,
                               Estimate& estimate) {
  const double ratio = TimeRatio(plan);
  int group = 0;
  for (const PricedPipeline& pipeline : priced.pipelines()) {
    const std::vector<StageSeconds> times =
        time_.EachStage(pipeline.stages, pipeline.time, caches_);
    for (int i = 0; i < pipeline.stages.stage_count(); ++i) {
      const NodePool& pool = *pipeline.stages.StageAt(i).devices->pool;
      const StageMemory modelled = memory_.OfDevice(pipeline.stages, i);
      const Bytes reserved = memory_.Reserved(modelled, pool);
      const StageSeconds& own = times[static_cast<std::size_t>(i)];
      const Seconds busy = pipeline.stages.micro_batches() * (own.forward + own.backward) * ratio;
      estimate.stages.push_back(
          {.pool = pool.name,
           .replica_group = group,
           .forward = own.forward * ratio,
           .backward = own.backward * ratio,
           .messages = own.messages * ratio,
           .reserved_memory = reserved,
           .memory_capacity = pool.memory_capacity,
           .fits = reserved <= pool.memory_capacity && !memory_.HasFailed(modelled, pool),
           .idle_ratio = std::max(0.0, 1 - busy / estimate.step_time)});
    }
    ++group;
  }
  std::map<std::string, int> used = PlaceStages(plan, problem_.cluster).node_counts;
  for (const NodePool& pool : problem_.cluster.pools) {
    const int idle = pool.node_count - used[pool.name];
    if (idle > 0) estimate.idle_nodes_by_pool[pool.name] = idle;
  }
}

TimeUncertainty AnalyticModel::UncertaintyOf(const ParallelPlan& plan, const Estimate& estimate) {
  const NodeCrossings crossings =
      plan.replica_groups.empty()
          ? NodeCrossingsOf(StagesOf(plan))
          : NodeCrossingsOf(Priced(plan, PipelineModel::kSimulated).slowest().stages);
  return meshwright::UncertaintyOf(estimate, PointOf(plan, problem_), crossings, problem_,
                                   calibration_);
}

// Fills in throughput, utilisation, interval and probability from the times and bytes of the
// estimate.
void AnalyticModel::FillRates(const ParallelPlan& plan, const PlanPrices& priced,
                              Estimate& estimate) const {
  const double tokens =
      static_cast<double>(problem_.workload.global_batch_size) * problem_.workload.sequence_length;
  double peak = 0;
  int devices = 0;
  const ChipSpec* chip = nullptr;  // chip of the busiest stage
  for (const PricedPipeline& pipeline : priced.pipelines()) {
    for (const StageRun& run : pipeline.stages.runs()) {
      const StageDevices& stage = *run.stage.devices;
      const bool is_later = pipeline.first_stage + run.first > estimate.busiest_stage;
      if (chip == nullptr || !is_later) chip = &stage.pool->chip;
      const int own = pipeline.replica_count * run.count * stage.data_parallel *
                      stage.sharding.tensor_parallel * stage.sharding.context_parallel;
      devices += own;
      peak += own * NominalPeak(stage.pool->chip, problem_.workload.precision)
                        .value_or(FlopsPerSecond{0})
                        .rate;
    }
  }
  // Only a cluster of one pool shares physical devices.
  peak /= DevicesPerPhysical(problem_.cluster.pools.front());
  const double rate = tokens / estimate.step_time.count();
  estimate.tokens_per_second_per_device = rate / devices;
  estimate.model_flops_utilization = peak > 0 ? model_flops_per_token_ * rate / peak : 0;
  const Spread spread =
      SpreadOf(estimate, *chip, problem_, NodeCrossingsOf(priced.slowest().stages), calibration_,
               PointOf(plan, problem_));
  estimate.step_time_low = estimate.step_time * std::exp(-kCentral80 * spread.time_low);
  estimate.step_time_high = estimate.step_time * std::exp(kCentral80 * spread.time_high);
  // A host that nobody has stated is assumed.
  const Host& host = problem_.cluster.pools.front().host;
  const bool assumes_host =
      plan.optimizer_offload_ratio > 0 &&
      host.updated_parameters_per_second == Host().updated_parameters_per_second;
  estimate.provenance = assumes_host ? Provenance::kAssumed : spread.provenance;
  estimate.breakdown_provenance = spread.breakdown_provenance;
  estimate.uncertainty_ratio_by_source = spread.uncertainty_ratio_by_source;
  estimate.fit_probability =
      ProbabilityBelow(static_cast<double>(estimate.reserved_memory.count),
                       static_cast<double>(estimate.memory_capacity.count), spread.memory);
  if (!estimate.fits && estimate.reserved_memory <= estimate.memory_capacity) {
    estimate.fit_probability = std::min(estimate.fit_probability, kContradicted);
  }
}

}  // namespace meshwright
