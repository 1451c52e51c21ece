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

// Probability of fitting that is left when a measured plan of this size or less ran out of memory,
// although the model has room (docs/cost_model.md "Intervals").
constexpr double kContradicted = 0.1;

std::size_t Index(TimeCause cause) { return static_cast<std::size_t>(cause); }

// The pipeline is part of a layer's sharding only where the framework's costs depend on it: plans
// that differ in its depth share their unit costs.
LayerSharding ShardingOf(const ParallelPlan& plan, const EstimatorProblem& problem) {
  const FrameworkProfile& profile = problem.profile;
  const bool is_pipelined = plan.pipeline_parallel > 1 || plan.stages.size() > 1;
  const bool contends = profile.host_per_collective_rank_with_pipeline > Seconds(0) ||
                        profile.collective_latency_per_node > Seconds(0);
  const bool has_nodes =
      problem.cluster.pools.size() > 1 || problem.cluster.pools.front().node_count > 1;
  return {.tensor_parallel = plan.tensor_parallel,
          .sequence_parallel = plan.sequence_parallel,
          .context_parallel = plan.context_parallel,
          .context_parallel_kind = plan.context_parallel_kind,
          .expert_parallel = plan.expert_parallel,
          .expert_tensor_parallel = plan.expert_tensor_parallel,
          .micro_batch_size = plan.micro_batch_size,
          .is_pipelined = is_pipelined && profile.keeps_gathered_input_without_pipeline,
          .pipeline_leaves_node = is_pipelined && has_nodes && contends};
}

void SplitContext(const ModelSpec& model, const NodePool& pool, LayerSharding& sharding) {
  if (sharding.context_parallel_kind != ContextParallelKind::kHybrid) return;
  sharding.hybrid_exchange_ranks = HybridExchangeRanks(
      sharding.context_parallel, sharding.tensor_parallel,
      ExchangedHeads(model, sharding.tensor_parallel), ScaleUpDeviceCount(pool));
}

// Between how many ranks each gradient is divided where a kernel of its own adds it up.
void ShardGradients(const ParallelPlan& plan, int data_parallel, const FrameworkProfile& profile,
                    LayerSharding& sharding) {
  if (plan.zero_stage < 2 || profile.gradient_accumulation_is_fused) return;
  const StateSharding states =
      meshwright::ShardingOf(plan, {.sharding = sharding, .data_parallel = data_parallel});
  sharding.gradient_shards = states.dense_group;
  sharding.expert_gradient_shards = states.expert_group;
}

int RecomputedLayers(const RecomputePlan& recompute, std::size_t stage, int layers) {
  if (recompute.granularity != RecomputeGranularity::kFull) return 0;
  if (recompute.layer_counts.empty()) return layers;
  const std::size_t row = std::min(stage, recompute.layer_counts.size() - 1);
  return std::min(recompute.layer_counts[row], layers);
}

StageMemory Scaled(StageMemory memory, double ratio) {
  memory.peak = Scale(memory.peak, ratio);
  for (Bytes& part : memory.breakdown) part = Scale(part, ratio);
  return memory;
}

// Layers that precede stage `index`, and how many of its own are dense.
int DenseLayers(const ModelSpec& model, int first, int count) {
  if (!model.moe.has_value()) return count;
  return std::clamp(model.moe->first_dense_layer_count - first, 0, count);
}

}  // namespace

// Everything about one plan that Quick and Full report.
struct AnalyticModel::Evaluation {
  int micro_batches = 1;
  PipelineShape shape = {};
  Seconds pipeline = Seconds(0);
  StageTime slowest = {};
  Seconds slowest_occupied = Seconds(0);
  StepTail tail = {};
  Seconds step = Seconds(0);
  int fullest = 0;  // stage
  Bytes peak = {};
  Bytes reserved = {};
  Bytes capacity = {};
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
  for (int i = 0; i < model.layer_count; ++i) {
    sum += flops(BuildLayer(context, IsMoeLayer(model, i)));
  }
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
      model_flops_per_token_(3 * ForwardFlopsPerToken(problem)),
      default_modules_(ModulesOf(problem.profile.selective_modules)) {
  matmuls_.reserve(problem.cluster.pools.size());
  for (const NodePool& pool : problem.cluster.pools) {
    matmuls_.emplace_back(pool.chip, RatesOf(pool, problem.workload));
  }
}

ModuleSet AnalyticModel::SelectiveModules(const RecomputePlan& recompute) const {
  return recompute.modules.empty() ? default_modules_ : ModulesOf(recompute.modules);
}

UnitCosts& AnalyticModel::UnitsOf(const LayerSharding& sharding, int pool, ModuleSet selective) {
  const UnitKey key = {.sharding = sharding, .pool = pool, .selective = selective};
  if (last_unit_ != nullptr && key == last_unit_->first) return last_unit_->second;
  auto found = units_.find(key);
  if (found == units_.end()) {
    found = units_.emplace(key, MeasureUnits(ContextOf(sharding), selective)).first;
  }
  last_unit_ = &*found;
  return found->second;
}

LayerContext AnalyticModel::ContextOf(const LayerSharding& sharding) const {
  return {.model = problem_.model,
          .workload = problem_.workload,
          .profile = problem_.profile,
          .sharding = sharding};
}

// Most plans of a search are dropped by their memory alone; time is priced when one is not.
void AnalyticModel::PriceRuns() {
  for (const StageRun& run : runs_) {
    const Stage& stage = run.stage;
    if (stage.unit->times.has_value()) continue;
    const std::ptrdiff_t pool = stage.pool - problem_.cluster.pools.data();
    const ModuleSet selective = stage.unit->selective;
    UnitCosts& unit = UnitsOf(stage.sharding, static_cast<int>(pool), selective);
    unit.times = PriceUnits(ContextOf(stage.sharding),
                            PlaceLayer(stage.sharding, *stage.pool, problem_.cluster.topology,
                                       matmuls_[static_cast<std::size_t>(pool)]),
                            selective);
  }
}

const std::vector<int>& AnalyticModel::DefaultSplit(int stage_count) {
  auto found = splits_.find(stage_count);
  if (found == splits_.end()) {
    found = splits_.emplace(stage_count, SplitLayers(problem_.model, problem_.profile, stage_count))
                .first;
  }
  return found->second;
}

void AnalyticModel::Append(const Stage& stage) {
  if (!runs_.empty() && runs_.back().stage == stage) {
    ++runs_.back().count;
    return;
  }
  const int first = runs_.empty() ? 0 : runs_.back().first + runs_.back().count;
  runs_.push_back({.stage = stage, .first = first, .count = 1});
}

void AnalyticModel::BuildRuns(const ParallelPlan& plan) {
  runs_.clear();
  if (!plan.stages.empty()) return BuildMixedRuns(plan);
  const auto p = static_cast<std::size_t>(plan.pipeline_parallel);
  const std::vector<int>& layers =
      plan.layers_per_stage.empty() ? DefaultSplit(plan.pipeline_parallel) : plan.layers_per_stage;
  LayerSharding sharding = ShardingOf(plan, problem_);
  SplitContext(problem_.model, problem_.cluster.pools.front(), sharding);
  ShardGradients(plan, plan.data_parallel, problem_.profile, sharding);
  Stage stage = {.pool = &problem_.cluster.pools.front(),
                 .unit = &UnitsOf(sharding, 0, SelectiveModules(plan.recompute)),
                 .sharding = sharding,
                 .data_parallel = plan.data_parallel,
                 .recompute = plan.recompute.granularity};
  int first_layer = 0;
  for (std::size_t i = 0; i < p; ++i) {
    stage.dense_layers = DenseLayers(problem_.model, first_layer, layers[i]);
    stage.moe_layers = layers[i] - stage.dense_layers;
    stage.mtp_layers = i + 1 == p ? problem_.model.mtp_layer_count : 0;
    stage.has_embedding = i == 0;
    stage.has_head = i + 1 == p;
    stage.recomputed_layers = RecomputedLayers(plan.recompute, i, layers[i]);
    Append(stage);
    first_layer += layers[i];
  }
}

// Stages that each name their pool, degrees and recomputation.
void AnalyticModel::BuildMixedRuns(const ParallelPlan& plan) {
  int first_layer = 0;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& own = plan.stages[i];
    LayerSharding sharding = ShardingOf(plan, problem_);
    sharding.tensor_parallel = own.tensor_parallel;
    sharding.sequence_parallel = plan.sequence_parallel && own.tensor_parallel > 1;
    sharding.context_parallel = own.context_parallel;
    sharding.micro_batch_size = own.micro_batch_size;
    int pool = 0;
    for (std::size_t k = 0; k < problem_.cluster.pools.size(); ++k) {
      if (problem_.cluster.pools[k].name == own.pool) pool = static_cast<int>(k);
    }
    SplitContext(problem_.model, problem_.cluster.pools[static_cast<std::size_t>(pool)], sharding);
    ShardGradients(plan, own.data_parallel, problem_.profile, sharding);
    const int dense = DenseLayers(problem_.model, first_layer, own.layer_count);
    const bool is_last = i + 1 == plan.stages.size();
    Append({.pool = &problem_.cluster.pools[static_cast<std::size_t>(pool)],
            .unit = &UnitsOf(sharding, pool, SelectiveModules(own.recompute)),
            .sharding = sharding,
            .data_parallel = own.data_parallel,
            .dense_layers = dense,
            .moe_layers = own.layer_count - dense,
            .mtp_layers = is_last ? problem_.model.mtp_layer_count : 0,
            .has_embedding = i == 0,
            .has_head = is_last,
            .recompute = own.recompute.granularity,
            .recomputed_layers = RecomputedLayers(own.recompute, 0, own.layer_count)});
    first_layer += own.layer_count;
  }
}

// Ranks between which a stage's message is split: without sequence parallelism every
// tensor-parallel rank holds all of it, and sends all of it unless the framework splits it.
int AnalyticModel::MessageShards(const Stage& from) const {
  const bool splits = problem_.profile.pipeline_sends_shards && !from.sharding.sequence_parallel;
  return splits ? from.sharding.tensor_parallel : 1;
}

// Puts a message that came in shards together again on every rank of `to`.
Seconds AnalyticModel::GatherShards(Bytes whole, int shards, const Stage& to) const {
  if (shards == 1) return Seconds(0);
  return CollectiveTime(CollectiveKind::kAllGather, whole,
                        PlaceGroup(shards, 1, ScaleUpDeviceCount(*to.pool)), *to.pool,
                        problem_.cluster.topology);
}

// A stage's activation to its neighbour, or its gradient back.
Seconds AnalyticModel::MessageTime(const Stage& from, bool leaves_node) const {
  const int shards = MessageShards(from);
  const Bytes whole = from.unit->boundary;
  return PointToPointTime(Scale(whole, 1.0 / shards), leaves_node, *from.pool,
                          problem_.cluster.topology) +
         GatherShards(whole, shards, from);
}

Seconds AnalyticModel::InterPoolMessageTime(const Stage& from, const Stage& to) const {
  const int shards = MessageShards(from);
  const Bytes whole = from.unit->boundary;
  return InterPoolTime(Scale(whole, 1.0 / shards), from.pool->devices_per_node,
                       problem_.cluster.inter_pool) +
         GatherShards(whole, std::min(shards, to.sharding.tensor_parallel), to);
}

Seconds AnalyticModel::SlowestMessage(const ParallelPlan& plan) const {
  Seconds slowest(0);
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const Stage& from = runs_[i].stage;
    const bool is_last = i + 1 == runs_.size();
    if (!is_last && runs_[i + 1].stage.pool != from.pool) {
      slowest = std::max(slowest, InterPoolMessageTime(from, runs_[i + 1].stage));
    }
    if (is_last && runs_[i].count == 1) continue;
    // Stages of a mixed plan are whole nodes; else one node may hold several.
    const bool leaves_node = (!plan.stages.empty() || from.pool->node_count > 1) &&
                             ScaleUpDeviceCount(*from.pool) < DeviceCount(*from.pool);
    slowest = std::max(slowest, MessageTime(from, leaves_node));
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

// States are allocated once and fill their blocks; what comes and goes with every micro-batch
// leaves gaps.
Bytes AnalyticModel::Reserved(const StageMemory& memory, const Stage& stage) const {
  const FrameworkProfile& profile = problem_.profile;
  const Bytes moving = memory.breakdown[static_cast<std::size_t>(MemoryKind::kActivations)] +
                       memory.breakdown[static_cast<std::size_t>(MemoryKind::kTransient)];
  Bytes reserved = memory.peak + Scale(moving, 1 / profile.allocator_efficiency - 1) +
                   stage.pool->chip.runtime_context;
  if (DeviceCount(problem_.cluster) > 1) reserved += profile.communicator_buffers_in_node;
  if (stage.pool->node_count > 1) reserved += profile.communicator_buffers_across_nodes;
  return reserved;
}

bool AnalyticModel::HasFailed(const StageMemory& modelled, const Stage& stage) const {
  return calibration_.out_of_memory_at.has_value() &&
         Reserved(modelled, stage) >= *calibration_.out_of_memory_at;
}

// Of equal neighbours the first holds most micro-batches under every modelled schedule, so it
// stands for its run.
AnalyticModel::Evaluation AnalyticModel::EvaluateMemory(const ParallelPlan& plan) {
  BuildRuns(plan);
  Evaluation e;
  e.micro_batches = MicroBatches();
  const int p = runs_.back().first + runs_.back().count;
  double worst_use = -1;
  for (const StageRun& run : runs_) {
    const double in_flight =
        InFlight(plan.schedule, run.first, p, plan.virtual_pipeline, e.micro_batches);
    const StageMemory modelled =
        MemoryOf(run.stage, meshwright::ShardingOf(plan, run.stage), in_flight, problem_);
    const StageMemory expected = Scaled(modelled, calibration_.memory_ratio);
    const Bytes peak = expected.peak;
    const Bytes reserved = Reserved(expected, run.stage);
    const Bytes capacity = run.stage.pool->memory_capacity;
    e.fits = e.fits && reserved <= capacity && !HasFailed(modelled, run.stage);
    if (reserved / capacity <= worst_use) continue;
    worst_use = reserved / capacity;
    e.fullest = run.first;
    e.peak = peak;
    e.reserved = reserved;
    e.capacity = capacity;
  }
  return e;
}

AnalyticModel::Evaluation AnalyticModel::Evaluate(const ParallelPlan& plan) {
  Evaluation e = EvaluateMemory(plan);
  PriceRuns();
  EvaluateTime(plan, e);
  return e;
}

int AnalyticModel::MicroBatches() const {
  const Stage& front = runs_.front().stage;
  return problem_.workload.global_batch_size /
         (front.data_parallel * front.sharding.micro_batch_size);
}

std::optional<Seconds> AnalyticModel::TimeIfPriced(const ParallelPlan& plan) {
  BuildRuns(plan);
  for (const StageRun& run : runs_) {
    if (!run.stage.unit->times.has_value()) return std::nullopt;
  }
  Evaluation e = {.micro_batches = MicroBatches()};
  EvaluateTime(plan, e);
  return e.step;
}

// Fills in the time of the stages in runs_, which are priced.
void AnalyticModel::EvaluateTime(const ParallelPlan& plan, Evaluation& e) {
  const int p = runs_.back().first + runs_.back().count;
  e.shape = ShapeOf(plan, e.micro_batches);
  occupied_.clear();
  for (const StageRun& run : runs_) {
    const StageTime time = TimeOf(run.stage, p > 1);
    const Seconds occupied = OccupiedTime(time.wall, e.shape, p);
    occupied_.push_back({.time = occupied, .count = run.count});
    if (occupied > e.slowest_occupied) {
      e.slowest = time;
      e.slowest_occupied = occupied;
    }
    const StepTail tail =
        TailOf(run.stage, time, meshwright::ShardingOf(plan, run.stage), e.shape, p, problem_);
    if (tail.communication + tail.optimizer > e.tail.communication + e.tail.optimizer) {
      e.tail = tail;
    }
  }
  e.pipeline = PipelineTime(occupied_, e.shape);
  e.step =
      (e.pipeline + e.tail.communication + e.tail.optimizer + problem_.profile.fixed_per_step) *
      calibration_.time_ratio;
}

MemoryCheck AnalyticModel::CheckMemory(const ParallelPlan& plan) {
  const Evaluation e = EvaluateMemory(plan);
  return {.reserved_memory = e.reserved, .fits = e.fits};
}

QuickEstimate AnalyticModel::Quick(const ParallelPlan& plan) {
  const Evaluation e = Evaluate(plan);
  return {.step_time = e.step, .reserved_memory = e.reserved, .fits = e.fits};
}

void AnalyticModel::FillBreakdown(const Evaluation& e, Estimate& estimate) const {
  const double m = e.micro_batches;
  const StageTime& slow = e.slowest;
  TimeBreakdown& line = estimate.breakdown;
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) {
    line[i] = m * (slow.forward.by_cause[i] + slow.backward.by_cause[i]);
  }
  const Seconds device = slow.forward.device + slow.backward.device;
  line[Index(TimeCause::kHost)] += m * (slow.wall - device);
  line[Index(TimeCause::kPipelineP2p)] += m * (e.slowest_occupied - slow.wall);
  line[Index(TimeCause::kPipelineBubble)] += e.pipeline - m * e.slowest_occupied;
  line[Index(TimeCause::kDataParallel)] += e.tail.communication;
  line[Index(TimeCause::kOptimizer)] += e.tail.optimizer;
  line[Index(TimeCause::kFixed)] += problem_.profile.fixed_per_step;
  for (Seconds& part : line) part *= calibration_.time_ratio;
}

void AnalyticModel::FillStages(const ParallelPlan& plan, const Evaluation& e,
                               Estimate& estimate) const {
  const int p = runs_.back().first + runs_.back().count;
  for (const StageRun& run : runs_) {
    for (int i = run.first; i < run.first + run.count; ++i) {
      const double in_flight =
          InFlight(plan.schedule, i, p, plan.virtual_pipeline, e.micro_batches);
      estimate.stage_memory.push_back(
          Scaled(MemoryOf(run.stage, meshwright::ShardingOf(plan, run.stage), in_flight, problem_),
                 calibration_.memory_ratio));
    }
  }
}

Estimate AnalyticModel::Full(const ParallelPlan& plan) {
  const Evaluation e = Evaluate(plan);
  Estimate estimate;
  estimate.step_time = e.step;
  FillBreakdown(e, estimate);
  FillStages(plan, e, estimate);
  estimate.busiest_stage = e.fullest;
  estimate.memory_breakdown = estimate.stage_memory[static_cast<std::size_t>(e.fullest)].breakdown;
  estimate.peak_memory = e.peak;
  estimate.reserved_memory = e.reserved;
  estimate.memory_capacity = e.capacity;
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
  const ChipSpec* chip = &runs_.front().stage.pool->chip;  // of the busiest stage
  for (const StageRun& run : runs_) {
    const Stage& stage = run.stage;
    if (run.first <= estimate.busiest_stage) chip = &stage.pool->chip;
    const int own = run.count * stage.data_parallel * stage.sharding.tensor_parallel *
                    stage.sharding.context_parallel;
    devices += own;
    peak +=
        own *
        NominalPeak(stage.pool->chip, problem_.workload.precision).value_or(FlopsPerSecond{0}).rate;
  }
  const double rate = tokens / estimate.step_time.count();
  estimate.tokens_per_second_per_device = rate / devices;
  estimate.model_flops_utilization = peak > 0 ? model_flops_per_token_ * rate / peak : 0;
  const Spread spread = SpreadOf(estimate, *chip, problem_, calibration_);
  estimate.step_time_low = estimate.step_time * std::exp(-kCentral80 * spread.time_low);
  estimate.step_time_high = estimate.step_time * std::exp(kCentral80 * spread.time_high);
  estimate.provenance = spread.provenance;
  estimate.fit_probability =
      ProbabilityBelow(static_cast<double>(estimate.reserved_memory.count),
                       static_cast<double>(estimate.memory_capacity.count), spread.memory);
  if (!estimate.fits && estimate.reserved_memory <= estimate.memory_capacity) {
    estimate.fit_probability = std::min(estimate.fit_probability, kContradicted);
  }
  estimate.tier = Tier::kClosedForm;
}

}  // namespace meshwright
