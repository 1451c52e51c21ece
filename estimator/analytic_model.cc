#include "estimator/analytic_model.h"

#include <algorithm>
#include <cmath>

#include "estimator/data_parallel.h"
#include "estimator/interval.h"
#include "estimator/layer_split.h"
#include "estimator/memory.h"
#include "estimator/parameters.h"
#include "estimator/pipeline_layout.h"
#include "estimator/terms/collective.h"

namespace meshwright {
namespace {

// Probability of fitting that is left when a measured plan of this size or less ran out of memory,
// although the model has room (docs/cost_model.md "Intervals").
constexpr double kContradicted = 0.1;

std::size_t Index(TimeCause cause) { return static_cast<std::size_t>(cause); }

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
  double ratio = 1;  // learnt from runs, part of `step`
  int fullest = 0;   // stage
  Bytes peak = {};
  Bytes reserved = {};
  Bytes capacity = {};
  bool fits = true;
  bool fits_device = true;
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
    if (stage.unit->times != nullptr) continue;
    UnitsOf(stage).times = std::make_unique<UnitTimes>(
        PriceUnits(ContextOf(stage.sharding), SiteOf(stage), stage.unit->selective));
  }
}

int AnalyticModel::PoolOf(const Stage& stage) const {
  return static_cast<int>(stage.pool - problem_.cluster.pools.data());
}

UnitCosts& AnalyticModel::UnitsOf(const Stage& stage) {
  return UnitsOf(stage.sharding, PoolOf(stage), stage.unit->selective);
}

LayerSite AnalyticModel::SiteOf(const Stage& stage) {
  return PlaceLayer(stage.sharding, *stage.pool, problem_.cluster.topology,
                    matmuls_[static_cast<std::size_t>(PoolOf(stage))]);
}

PipelineShape AnalyticModel::ShapeOf(const ParallelPlan& plan, int micro_batches) const {
  return {.schedule = plan.schedule,
          .micro_batches = micro_batches,
          .stages = StageTotal(),
          .virtual_stages =
              LayoutOf(plan.schedule, StageTotal(), plan.virtual_pipeline).chunks_per_device,
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
  const std::optional<FailedRun>& failed = calibration_.out_of_memory;
  return failed.has_value() && stage.pool->memory_capacity <= failed->memory_capacity &&
         Reserved(modelled, stage) >= failed->reserved_memory;
}

const Stage& AnalyticModel::StageAt(int index) const {
  return std::find_if(runs_.begin(), runs_.end(),
                      [&](const StageRun& run) { return index < run.first + run.count; })
      ->stage;
}

StageMemory AnalyticModel::MemoryOfStage(const ParallelPlan& plan, Stage stage, int index,
                                         int micro_batches) const {
  const int p = StageTotal();
  const PipelineLayout layout = LayoutOf(plan.schedule, p, plan.virtual_pipeline);
  stage.data_parallel *= layout.directions();  // the copies of a stage share its states
  return MemoryOf(stage, meshwright::ShardingOf(plan, stage),
                  InFlight(plan.schedule, index, p, plan.virtual_pipeline, micro_batches),
                  problem_);
}

// A device of two directions holds a stage of each; what comes and goes and what the framework
// keeps serve both.
StageMemory AnalyticModel::MemoryOfDevice(const ParallelPlan& plan, int device,
                                          int micro_batches) const {
  const int p = StageTotal();
  StageMemory memory = MemoryOfStage(plan, StageAt(device), device, micro_batches);
  if (LayoutOf(plan.schedule, p, plan.virtual_pipeline).directions() == 1) return memory;
  const int other_index = p - 1 - device;
  const StageMemory other = MemoryOfStage(plan, StageAt(other_index), other_index, micro_batches);
  memory.peak = {};
  for (std::size_t i = 0; i < kMemoryKindCount; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    const bool serves_both = kind == MemoryKind::kTransient || kind == MemoryKind::kFrameworkCache;
    Bytes& part = memory.breakdown[i];
    part = serves_both ? std::max(part, other.breakdown[i]) : part + other.breakdown[i];
    memory.peak += part;
  }
  return memory;
}

// Of equal neighbours the first holds most micro-batches under every schedule of one direction, so
// it stands for its run.
AnalyticModel::Evaluation AnalyticModel::EvaluateMemory(const ParallelPlan& plan) {
  BuildRuns(plan);
  Evaluation e;
  e.micro_batches = MicroBatches();
  const int p = StageTotal();
  const bool has_two_directions = LayoutOf(plan.schedule, p, 1).directions() == 2;
  double worst_use = -1;
  for (const StageRun& run : runs_) {
    const int devices = has_two_directions ? run.count : 1;
    for (int device = run.first; device < run.first + devices; ++device) {
      const StageMemory modelled = MemoryOfDevice(plan, device, e.micro_batches);
      const StageMemory expected = ScaledMemory(modelled, calibration_.memory_ratio);
      const Bytes reserved = Reserved(expected, run.stage);
      const Bytes capacity = run.stage.pool->memory_capacity;
      e.fits_device = e.fits_device && reserved <= capacity;
      e.fits = e.fits && reserved <= capacity && !HasFailed(modelled, run.stage);
      if (reserved / capacity <= worst_use) continue;
      worst_use = reserved / capacity;
      e.fullest = device;
      e.peak = expected.peak;
      e.reserved = reserved;
      e.capacity = capacity;
    }
  }
  return e;
}

AnalyticModel::Evaluation AnalyticModel::Evaluate(const ParallelPlan& plan, PipelineModel model) {
  Evaluation e = EvaluateMemory(plan);
  PriceRuns();
  EvaluateTime(plan, model, e);
  return e;
}

int AnalyticModel::MicroBatches() const {
  const Stage& front = runs_.front().stage;
  return problem_.workload.global_batch_size /
         (front.data_parallel * front.sharding.micro_batch_size);
}

std::optional<Seconds> AnalyticModel::LeastTimeIfPriced(const ParallelPlan& plan) {
  BuildRuns(plan);
  for (const StageRun& run : runs_) {
    if (run.stage.unit->times == nullptr) return std::nullopt;
  }
  Evaluation e = {.micro_batches = MicroBatches()};
  EvaluateTime(plan, PipelineModel::kLeast, e);
  return e.step;
}

// The work of every stage in works_, equal neighbours in occupied_, and the longest tail.
void AnalyticModel::TimeStages(const ParallelPlan& plan, Evaluation& e) {
  const int p = StageTotal();
  const int directions = LayoutOf(plan.schedule, p, 1).directions();
  occupied_.clear();
  works_.clear();
  PipelineShape half = e.shape;  // of each direction
  half.micro_batches /= directions;
  std::vector<StepTail> tails;  // of each stage, where a device has two
  std::vector<StageTime> times;
  for (const StageRun& run : runs_) {
    const StageTime time = TimeOf(run.stage, p > 1);
    const Seconds occupied = OccupiedTime(time.wall, e.shape, p);
    const Seconds message = (occupied - time.wall) / 2;  // of each pass
    occupied_.push_back({.time = occupied, .count = run.count});
    works_.insert(works_.end(), static_cast<std::size_t>(run.count),
                  {.forward = time.work.forward + message,
                   .backward = time.work.backward + message,
                   .weight_gradient = time.work.weight_gradient});
    if (occupied > e.slowest_occupied) {
      e.slowest = time;
      e.slowest_occupied = occupied;
    }
    Stage stage = run.stage;
    stage.data_parallel *= directions;
    // The copy on the way back lies in the same pipeline, as far off on the mean.
    stage.block_stride = std::max(1, stage.block_stride / directions);
    const StepTail tail = TailOf(stage, time, meshwright::ShardingOf(plan, stage), half, problem_);
    if (directions == 2) {
      tails.insert(tails.end(), static_cast<std::size_t>(run.count), tail);
      times.insert(times.end(), static_cast<std::size_t>(run.count), time);
    }
    if (tail.communication + tail.optimizer > e.tail.communication + e.tail.optimizer) {
      e.tail = tail;
    }
  }
  if (directions == 2) e.slowest_occupied = Seconds(0);
  for (std::size_t i = 0; i < tails.size(); ++i) {
    const std::size_t across = tails.size() - 1 - i;
    const StageTime mean = Mean(times[i], times[across]);
    const Seconds occupied = OccupiedTime(mean.wall, e.shape, p);
    if (occupied > e.slowest_occupied) {
      e.slowest = mean;
      e.slowest_occupied = occupied;
    }
    const StepTail& other = tails[across];
    const StepTail both = {.communication = tails[i].communication + other.communication,
                           .optimizer = tails[i].optimizer + other.optimizer};
    if (i == 0 || both.communication + both.optimizer > e.tail.communication + e.tail.optimizer) {
      e.tail = both;
    }
  }
}

PipelineProgram AnalyticModel::ProgramOf(const PipelineShape& shape) const {
  return {.schedule = shape.schedule,
          .micro_batches = shape.micro_batches,
          .virtual_stages = shape.virtual_stages,
          .message = shape.overlaps_point_to_point ? shape.point_to_point : Seconds(0),
          .stages = works_};
}

Seconds AnalyticModel::PipelineTimeBy(PipelineModel model, const Evaluation& e) {
  if (works_.size() == 1) return e.micro_batches * e.slowest_occupied;
  if (model == PipelineModel::kClosedForm && HasClosedForm(e.shape.schedule)) {
    return PipelineTime(occupied_, e.shape);
  }
  const PipelineProgram program = ProgramOf(e.shape);
  return model == PipelineModel::kSimulated ? simulator_.Simulate(program)
                                            : kRoundingSlack * LeastPipelineTime(program);
}

double LeastTimeRatio(const Calibration& calibration) {
  const double plans = calibration.time.most_plan_log_factor;
  return calibration.time_ratio * std::exp(-plans);
}

double AnalyticModel::TimeRatio(const ParallelPlan& plan) {
  if (calibration_.time.points.empty()) return calibration_.time_ratio;
  const PlanPoint point = PointOf(plan, problem_);
  if (!last_ratio_.has_value() || last_ratio_->first != point) {
    last_ratio_ = {point,
                   calibration_.time_ratio * std::exp(PlanLogFactor(calibration_.time, point))};
  }
  return last_ratio_->second;
}

// Fills in the time of the stages in runs_, which are priced.
void AnalyticModel::EvaluateTime(const ParallelPlan& plan, PipelineModel model, Evaluation& e) {
  e.shape = ShapeOf(plan, e.micro_batches);
  TimeStages(plan, e);
  e.pipeline = PipelineTimeBy(model, e);
  e.ratio = TimeRatio(plan);
  e.step =
      (e.pipeline + e.tail.communication + e.tail.optimizer + problem_.profile.fixed_per_step) *
      e.ratio;
}

MemoryCheck AnalyticModel::CheckMemory(const ParallelPlan& plan) {
  const Evaluation e = EvaluateMemory(plan);
  return {.reserved_memory = e.reserved, .fits = e.fits, .fits_device = e.fits_device};
}

QuickEstimate AnalyticModel::Quick(const ParallelPlan& plan) {
  const Evaluation e = Evaluate(plan, PipelineModel::kSimulated);
  return {.step_time = e.step, .reserved_memory = e.reserved, .fits = e.fits};
}

QuickEstimate AnalyticModel::ClosedForm(const ParallelPlan& plan) {
  const Evaluation e = Evaluate(plan, PipelineModel::kClosedForm);
  return {.step_time = e.step, .reserved_memory = e.reserved, .fits = e.fits};
}

Timeline AnalyticModel::TimelineOf(const ParallelPlan& plan) {
  const Evaluation e = Evaluate(plan, PipelineModel::kSimulated);
  const double ratio = e.ratio;
  Timeline timeline = {.pipeline = e.pipeline * ratio,
                       .communication = e.tail.communication * ratio,
                       .optimizer = e.tail.optimizer * ratio,
                       .fixed = problem_.profile.fixed_per_step * ratio,
                       .step = e.step};
  simulator_.Simulate(ProgramOf(e.shape), &timeline.operations);
  for (ScheduledOperation& operation : timeline.operations) {
    operation.start *= ratio;
    operation.end *= ratio;
  }
  return timeline;
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
  for (Seconds& part : line) part *= e.ratio;
}

void AnalyticModel::FillStages(const ParallelPlan& plan, const Evaluation& e,
                               Estimate& estimate) const {
  for (int device = 0; device < StageTotal(); ++device) {
    estimate.stage_memory.push_back(
        ScaledMemory(MemoryOfDevice(plan, device, e.micro_batches), calibration_.memory_ratio));
  }
}

Estimate AnalyticModel::Full(const ParallelPlan& plan) {
  const Evaluation e = Evaluate(plan, PipelineModel::kSimulated);
  Estimate estimate;
  estimate.tier = StageTotal() > 1 ? Tier::kSimulated : Tier::kClosedForm;
  estimate.step_time = e.step;
  FillBreakdown(e, estimate);
  FillStages(plan, e, estimate);
  estimate.busiest_stage = e.fullest;
  estimate.memory_breakdown = estimate.stage_memory[static_cast<std::size_t>(e.fullest)].breakdown;
  estimate.peak_memory = e.peak;
  estimate.reserved_memory = e.reserved;
  estimate.memory_capacity = e.capacity;
  estimate.fits = e.fits;
  FillRates(plan, estimate);
  return estimate;
}

// Throughput, utilisation, interval and probability from the times and bytes already filled in.
void AnalyticModel::FillRates(const ParallelPlan& plan, Estimate& estimate) const {
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
  const Spread spread = SpreadOf(estimate, *chip, problem_, calibration_, PointOf(plan, problem_));
  estimate.step_time_low = estimate.step_time * std::exp(-kCentral80 * spread.time_low);
  estimate.step_time_high = estimate.step_time * std::exp(kCentral80 * spread.time_high);
  estimate.provenance = spread.provenance;
  estimate.fit_probability =
      ProbabilityBelow(static_cast<double>(estimate.reserved_memory.count),
                       static_cast<double>(estimate.memory_capacity.count), spread.memory);
  if (!estimate.fits && estimate.reserved_memory <= estimate.memory_capacity) {
    estimate.fit_probability = std::min(estimate.fit_probability, kContradicted);
  }
}

}  // namespace meshwright
