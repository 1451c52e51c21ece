#include "estimator/analytic_model.h"

#include <algorithm>
#include <cmath>

#include "estimator/data_parallel.h"
#include "estimator/interval.h"
#include "estimator/layer_split.h"
#include "estimator/memory.h"
#include "estimator/terms/collective.h"

namespace meshwright {
namespace {

std::size_t Index(TimeCause cause) { return static_cast<std::size_t>(cause); }

LayerSharding ShardingOf(const ParallelPlan& plan) {
  return {.tensor_parallel = plan.tensor_parallel,
          .sequence_parallel = plan.sequence_parallel,
          .context_parallel = plan.context_parallel,
          .context_parallel_kind = plan.context_parallel_kind,
          .expert_parallel = plan.expert_parallel,
          .expert_tensor_parallel = plan.expert_tensor_parallel,
          .micro_batch_size = plan.micro_batch_size};
}

int RecomputedLayers(const RecomputePlan& recompute, std::size_t stage, int layers) {
  if (recompute.granularity != RecomputeGranularity::kFull) return 0;
  if (recompute.layer_counts.empty()) return layers;
  const std::size_t row = std::min(stage, recompute.layer_counts.size() - 1);
  return std::min(recompute.layer_counts[row], layers);
}

// Layers that precede stage `index`, and how many of its own are dense.
int DenseLayers(const ModelSpec& model, int first, int count) {
  if (!model.moe.has_value()) return count;
  return std::clamp(model.moe->first_dense_layer_count - first, 0, count);
}

}  // namespace

// Everything about one plan that both Quick and Full report.
struct AnalyticModel::Evaluation {
  int micro_batches = 1;
  PipelineShape shape = {};
  Seconds pipeline = Seconds(0);
  StepTail tail = {};
  Seconds step = Seconds(0);
  std::size_t slowest = 0;  // stage
  std::size_t fullest = 0;  // stage
  Bytes peak = {};
  Bytes reserved = {};
  bool fits = true;
};

double ForwardFlopsPerToken(const EstimatorProblem& problem) {
  // The kernels of an undivided model; the fused attention kernel counts the causal half.
  Workload workload = problem.workload;
  workload.attention_kernel = AttentionKernel::kFlash2;
  ModelSpec model = problem.model;
  if (model.moe.has_value()) model.moe->imbalance_ratio = 1;
  const LayerSharding whole = {};
  const LayerContext context = {
      .model = model, .workload = workload, .profile = problem.profile, .sharding = whole};
  const auto flops = [](const LayerProgram& program) {
    double sum = 0;
    for (const Kernel& kernel : program.kernels) sum += kernel.flops.count;
    return sum;
  };
  const double head = 2.0 * workload.sequence_length * model.vocab_size * model.hidden_size;
  double sum = head;
  for (int i = 0; i < model.layer_count; ++i)
    sum += flops(BuildLayer(context, IsMoeLayer(model, i)));
  if (model.mtp_layer_count > 0) {
    const double h = model.hidden_size;
    sum += model.mtp_layer_count * (flops(BuildLayer(context, model.moe.has_value())) + head +
                                    4.0 * workload.sequence_length * h * h);
  }
  return sum / workload.sequence_length;
}

AnalyticModel::AnalyticModel(const EstimatorProblem& problem, const Calibration& calibration)
    : problem_(problem),
      calibration_(calibration),
      model_flops_per_token_(3 * ForwardFlopsPerToken(problem)) {}

const UnitCosts& AnalyticModel::UnitsOf(const LayerSharding& sharding, int pool,
                                        ModuleSet selective) {
  const UnitKey key = {.sharding = sharding, .pool = pool, .selective = selective};
  if (last_unit_ != nullptr && key == last_key_) return *last_unit_;
  auto found = units_.find(key);
  if (found == units_.end()) {
    const NodePool& where = problem_.cluster.pools[static_cast<std::size_t>(pool)];
    const LayerContext context = {.model = problem_.model,
                                  .workload = problem_.workload,
                                  .profile = problem_.profile,
                                  .sharding = sharding};
    const LayerSite site = PlaceLayer(sharding, where, problem_.cluster.topology);
    found = units_.emplace(key, PriceUnits(context, site, selective)).first;
  }
  last_key_ = key;
  last_unit_ = &found->second;
  return found->second;
}

void AnalyticModel::BuildStages(const ParallelPlan& plan) {
  const int p = StageCount(plan);
  const std::vector<int> layers = !plan.stages.empty() || !plan.layers_per_stage.empty()
                                      ? plan.layers_per_stage
                                      : SplitLayers(problem_.model, problem_.profile, p);
  stages_.assign(static_cast<std::size_t>(p), Stage{});
  int first = 0;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    LayerSharding sharding = ShardingOf(plan);
    int pool = 0;
    int data_parallel = plan.data_parallel;
    const RecomputePlan* recompute = &plan.recompute;
    int count = plan.stages.empty() ? layers[i] : plan.stages[i].layer_count;
    int recomputed = RecomputedLayers(*recompute, i, count);
    if (!plan.stages.empty()) {
      const StagePlan& own = plan.stages[i];
      sharding.tensor_parallel = own.tensor_parallel;
      sharding.sequence_parallel = plan.sequence_parallel && own.tensor_parallel > 1;
      sharding.context_parallel = own.context_parallel;
      sharding.micro_batch_size = own.micro_batch_size;
      data_parallel = own.data_parallel;
      recompute = &own.recompute;
      recomputed = RecomputedLayers(own.recompute, 0, count);
      for (std::size_t k = 0; k < problem_.cluster.pools.size(); ++k) {
        if (problem_.cluster.pools[k].name == own.pool) pool = static_cast<int>(k);
      }
    }
    const ModuleSet selective = recompute->granularity != RecomputeGranularity::kSelective ? 0
                                : recompute->modules.empty()
                                    ? ModulesOf(problem_.profile.selective_modules)
                                    : ModulesOf(recompute->modules);
    const int dense = DenseLayers(problem_.model, first, count);
    const bool is_last = i + 1 == stages_.size();
    stages_[i] = {.pool = &problem_.cluster.pools[static_cast<std::size_t>(pool)],
                  .unit = &UnitsOf(sharding, pool, selective),
                  .sharding = sharding,
                  .data_parallel = data_parallel,
                  .dense_layers = dense,
                  .moe_layers = count - dense,
                  .mtp_layers = is_last ? problem_.model.mtp_layer_count : 0,
                  .has_embedding = i == 0,
                  .has_head = is_last,
                  .recompute = recompute->granularity,
                  .recomputed_layers = recomputed};
    first += count;
  }
}

Seconds AnalyticModel::SlowestMessage(const ParallelPlan& plan) const {
  Seconds slowest(0);
  for (std::size_t i = 0; i + 1 < stages_.size(); ++i) {
    const Stage& from = stages_[i];
    const Stage& to = stages_[i + 1];
    if (from.pool != to.pool) {
      slowest = std::max(slowest, InterPoolTime(from.unit->boundary, from.pool->devices_per_node,
                                                problem_.cluster.inter_pool));
      continue;
    }
    const int devices =
        plan.stages.empty() ? DeviceCount(*from.pool) : from.pool->devices_per_node + 1;
    const bool leaves_node = devices > from.pool->devices_per_node;
    slowest = std::max(slowest, PointToPointTime(from.unit->boundary, leaves_node, *from.pool,
                                                 problem_.cluster.topology));
  }
  return slowest;
}

PipelineShape AnalyticModel::ShapeOf(const ParallelPlan& plan, int micro_batches) const {
  return {.schedule = plan.schedule,
          .micro_batches = micro_batches,
          .virtual_stages = plan.virtual_pipeline,
          .point_to_point = SlowestMessage(plan),
          .overlaps_point_to_point = problem_.workload.overlap.pipeline_p2p};
}

Bytes AnalyticModel::Reserved(Bytes peak, const Stage& stage) const {
  const FrameworkProfile& profile = problem_.profile;
  Bytes reserved = Scale(peak, 1 / profile.allocator_efficiency) + stage.pool->chip.runtime_context;
  if (DeviceCount(problem_.cluster) > 1) reserved += profile.communicator_buffers_in_node;
  if (stage.pool->node_count > 1) reserved += profile.communicator_buffers_across_nodes;
  return reserved;
}

bool AnalyticModel::HasFailed(Bytes modelled, const Stage& stage) const {
  return calibration_.out_of_memory_at.has_value() &&
         Reserved(modelled, stage) >= *calibration_.out_of_memory_at;
}

AnalyticModel::Evaluation AnalyticModel::Evaluate(const ParallelPlan& plan) {
  BuildStages(plan);
  Evaluation e;
  const int p = static_cast<int>(stages_.size());
  const Stage& front = stages_.front();
  e.micro_batches =
      problem_.workload.global_batch_size / (front.data_parallel * front.sharding.micro_batch_size);
  e.shape = ShapeOf(plan, e.micro_batches);
  times_.resize(stages_.size());
  occupied_.resize(stages_.size());
  double worst_use = -1;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    const bool repeats = i > 0 && stage == stages_[i - 1];
    times_[i] = repeats ? times_[i - 1] : TimeOf(stage);
    occupied_[i] = OccupiedTime(times_[i].wall, e.shape, p);
    if (occupied_[i] > occupied_[e.slowest]) e.slowest = i;
    const StateSharding sharding = meshwright::ShardingOf(plan, stage);
    const double in_flight =
        InFlight(plan.schedule, static_cast<int>(i), p, plan.virtual_pipeline, e.micro_batches);
    const Bytes modelled = MemoryOf(stage, sharding, in_flight, problem_).peak;
    const Bytes peak = Scale(modelled, calibration_.memory_ratio);
    const Bytes reserved = Reserved(peak, stage);
    e.fits = e.fits && reserved <= stage.pool->memory_capacity && !HasFailed(modelled, stage);
    const double use = reserved / stage.pool->memory_capacity;
    if (use > worst_use) {
      worst_use = use;
      e.fullest = i;
      e.peak = peak;
      e.reserved = reserved;
    }
    if (repeats) continue;  // earlier stages of equal shape hold no less and end no later
    const StepTail tail = TailOf(stage, times_[i], sharding, e.micro_batches, problem_);
    if (tail.communication + tail.optimizer > e.tail.communication + e.tail.optimizer)
      e.tail = tail;
  }
  e.pipeline = PipelineTime(occupied_, e.shape);
  e.step =
      (e.pipeline + e.tail.communication + e.tail.optimizer + problem_.profile.fixed_per_step) *
      calibration_.time_ratio;
  return e;
}

QuickEstimate AnalyticModel::Quick(const ParallelPlan& plan) {
  const Evaluation e = Evaluate(plan);
  return {.step_time = e.step, .reserved_memory = e.reserved, .fits = e.fits};
}

Estimate AnalyticModel::Full(const ParallelPlan& plan) {
  const Evaluation e = Evaluate(plan);
  Estimate estimate;
  estimate.step_time = e.step;
  const StageTime& slow = times_[e.slowest];
  const double m = e.micro_batches;
  TimeBreakdown& line = estimate.breakdown;
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) {
    line[i] = m * (slow.forward.by_cause[i] + slow.backward.by_cause[i]);
  }
  const Seconds device = slow.forward.device + slow.backward.device;
  line[Index(TimeCause::kHost)] += m * (slow.wall - device);
  line[Index(TimeCause::kPipelineP2p)] += m * (occupied_[e.slowest] - slow.wall);
  line[Index(TimeCause::kPipelineBubble)] += e.pipeline - m * occupied_[e.slowest];
  line[Index(TimeCause::kDataParallel)] += e.tail.communication;
  line[Index(TimeCause::kOptimizer)] += e.tail.optimizer;
  line[Index(TimeCause::kFixed)] += problem_.profile.fixed_per_step;
  for (Seconds& part : line) part *= calibration_.time_ratio;

  const int p = static_cast<int>(stages_.size());
  for (int i = 0; i < p; ++i) {
    const Stage& stage = stages_[static_cast<std::size_t>(i)];
    const double in_flight = InFlight(plan.schedule, i, p, plan.virtual_pipeline, e.micro_batches);
    StageMemory memory = MemoryOf(stage, meshwright::ShardingOf(plan, stage), in_flight, problem_);
    memory.peak = Scale(memory.peak, calibration_.memory_ratio);
    for (Bytes& part : memory.breakdown) part = Scale(part, calibration_.memory_ratio);
    estimate.stage_memory.push_back(memory);
  }
  const Stage& fullest = stages_[e.fullest];
  estimate.busiest_stage = static_cast<int>(e.fullest);
  estimate.memory_breakdown = estimate.stage_memory[e.fullest].breakdown;
  estimate.peak_memory = e.peak;
  estimate.reserved_memory = e.reserved;
  estimate.memory_capacity = fullest.pool->memory_capacity;
  estimate.fits = e.fits;
  FillRates(estimate);
  return estimate;
}

// Throughput, utilisation, interval and probability from the times and bytes already filled in.
void AnalyticModel::FillRates(Estimate& estimate) const {
  const double tokens =
      static_cast<double>(problem_.workload.global_batch_size) * problem_.workload.sequence_length;
  double peak = 0;
  int devices = 0;
  for (const Stage& stage : stages_) {
    const int own =
        stage.data_parallel * stage.sharding.tensor_parallel * stage.sharding.context_parallel;
    devices += own;
    peak +=
        own *
        NominalPeak(stage.pool->chip, problem_.workload.precision).value_or(FlopsPerSecond{0}).rate;
  }
  const double rate = tokens / estimate.step_time.count();
  estimate.tokens_per_second_per_device = rate / devices;
  estimate.model_flops_utilization = peak > 0 ? model_flops_per_token_ * rate / peak : 0;
  const ChipSpec& chip = stages_[static_cast<std::size_t>(estimate.busiest_stage)].pool->chip;
  const Spread spread = SpreadOf(estimate, chip, problem_, calibration_);
  estimate.step_time_low = estimate.step_time * std::exp(-kCentral80 * spread.time_low);
  estimate.step_time_high = estimate.step_time * std::exp(kCentral80 * spread.time_high);
  estimate.provenance = spread.provenance;
  estimate.fit_probability =
      ProbabilityBelow(static_cast<double>(estimate.reserved_memory.count),
                       static_cast<double>(estimate.memory_capacity.count), spread.memory);
  estimate.tier = Tier::kClosedForm;
}

}  // namespace meshwright
