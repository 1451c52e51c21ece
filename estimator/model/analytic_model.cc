#include "estimator/model/analytic_model.h"

#include <algorithm>
#include <cmath>

#include "estimator/layer/layer_split.h"
#include "estimator/layer/parameters.h"
#include "estimator/learning/interval.h"
#include "estimator/model/data_parallel.h"
#include "estimator/model/device_sharing.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/terms/collective.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"

namespace meshwright {
namespace {

// Probability of fitting that is left when a measured plan of this size or less ran out of memory,
// although the model has room (docs/cost_model.md "Intervals").
constexpr double kContradicted = 0.1;

std::size_t Index(TimeCause cause) { return static_cast<std::size_t>(cause); }

Bytes Part(const StageMemory& memory, MemoryKind kind) {
  return memory.breakdown[static_cast<std::size_t>(kind)];
}

}  // namespace

// The stage of a device, or the two that take turns on it.
struct AnalyticModel::TimedDevice {
  const Stage* stage = nullptr;
  const Stage* other = nullptr;
  Seconds wall = Seconds(0);  // of a micro-batch
};

// A stage of a device that has another beside it.
struct AnalyticModel::TimedStage {
  const Stage* stage = nullptr;
  Seconds wall = Seconds(0);
  StepTail tail = {};
};

// Everything about one plan that Quick and Full report.
struct AnalyticModel::Evaluation {
  int micro_batches = 1;
  PipelineShape shape = {};
  Seconds pipeline = Seconds(0);
  double stretch = 1;       // of the pipeline, by what shares its physical devices
  double busy_stretch = 1;  // of the slowest's own work
  TimedDevice slowest = {};
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
      default_modules_(ModulesOf(problem.profile.selective_modules)),
      state_bytes_(BytesPerParameter(problem.workload, problem.profile)),
      gaps_per_moving_byte_(1 / problem.profile.allocator_efficiency - 1) {
  if (DeviceCount(problem.cluster) > 1) {
    communicators_ = problem.profile.communicator_buffers_in_node;
  }
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
  if (last_unit_.has_value() && key == last_unit_->first) return *last_unit_->second;
  std::unique_ptr<UnitCosts>& unit = units_[key];
  if (unit == nullptr) {
    unit = std::make_unique<UnitCosts>(MeasureUnits(ContextOf(sharding), selective));
  }
  last_unit_ = {key, unit.get()};
  return *unit;
}

LayerContext AnalyticModel::ContextOf(const LayerSharding& sharding) const {
  return {.model = problem_.model,
          .workload = problem_.workload,
          .profile = problem_.profile,
          .sharding = sharding};
}

// Most plans of a search are dropped by their memory alone; time is priced when one is not.
void AnalyticModel::PriceRuns() {
  for (const StageDevices& devices : devices_) {
    if (devices.unit->times != nullptr) continue;
    UnitCosts& unit = UnitsOf(devices);
    unit.times = std::make_unique<UnitTimes>(
        PriceUnits(ContextOf(devices.sharding), SiteOf(devices), unit.selective));
    unit.sums = SumsOf(*unit.times);
  }
}

int AnalyticModel::PoolOf(const StageDevices& devices) const {
  return static_cast<int>(devices.pool - problem_.cluster.pools.data());
}

UnitCosts& AnalyticModel::UnitsOf(const StageDevices& devices) {
  return UnitsOf(devices.sharding, PoolOf(devices), devices.unit->selective);
}

LayerSite AnalyticModel::SiteOf(const StageDevices& devices) {
  return PlaceLayer(devices.sharding, *devices.pool, problem_.cluster.topology,
                    matmuls_[static_cast<std::size_t>(PoolOf(devices))]);
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

AnalyticModel::InUse AnalyticModel::ModelledUse(const StageMemory& memory) {
  return {.peak = memory.peak,
          .moving = Part(memory, MemoryKind::kActivations) + Part(memory, MemoryKind::kTransient)};
}

AnalyticModel::InUse AnalyticModel::ExpectedUse(const StageMemory& memory) const {
  const double ratio = calibration_.memory_ratio;
  return {.peak = Scale(memory.peak, ratio),
          .moving = Scale(Part(memory, MemoryKind::kActivations), ratio) +
                    Scale(Part(memory, MemoryKind::kTransient), ratio)};
}

// States are allocated once and fill their blocks; what comes and goes leaves gaps.
Bytes AnalyticModel::Reserved(const InUse& use, const NodePool& pool) const {
  Bytes reserved = use.peak + Scale(use.moving, gaps_per_moving_byte_) + pool.chip.runtime_context +
                   communicators_;
  if (pool.node_count > 1) reserved += problem_.profile.communicator_buffers_across_nodes;
  return reserved;
}

bool AnalyticModel::HasFailed(const StageMemory& modelled, const NodePool& pool) const {
  const std::optional<FailedRun>& failed = calibration_.out_of_memory;
  return failed.has_value() && pool.memory_capacity <= failed->memory_capacity &&
         Reserved(ModelledUse(modelled), pool) >= failed->reserved_memory;
}

const Stage& AnalyticModel::StageAt(int index) const {
  return std::find_if(runs_.begin(), runs_.end(),
                      [&](const StageRun& run) { return index < run.first + run.count; })
      ->stage;
}

StageMemory AnalyticModel::MemoryOfStage(const ParallelPlan& plan, const Stage& stage, int index,
                                         int micro_batches) const {
  return MemoryOf(
      stage, InFlight(plan.schedule, index, StageTotal(), plan.virtual_pipeline, micro_batches),
      state_bytes_, problem_);
}

// A device of two directions holds a stage of each, `stage` in the first; what comes and goes and
// what the framework keeps serve both.
StageMemory AnalyticModel::MemoryOfDevice(const ParallelPlan& plan, const Stage& stage, int device,
                                          int micro_batches) const {
  StageMemory memory = MemoryOfStage(plan, stage, device, micro_batches);
  if (stage.devices->directions == 1) return memory;
  const int other_index = StageTotal() - 1 - device;
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
  double worst_use = -1;
  for (const StageRun& run : runs_) {
    const NodePool& pool = *run.stage.devices->pool;
    const int devices = run.stage.devices->directions == 2 ? run.count : 1;
    for (int device = run.first; device < run.first + devices; ++device) {
      const StageMemory modelled = MemoryOfDevice(plan, run.stage, device, e.micro_batches);
      const InUse expected = ExpectedUse(modelled);
      const Bytes reserved = Reserved(expected, pool);
      const Bytes capacity = pool.memory_capacity;
      e.fits_device = e.fits_device && reserved <= capacity;
      e.fits = e.fits && reserved <= capacity && !HasFailed(modelled, pool);
      const double use = reserved / capacity;
      if (use <= worst_use) continue;
      worst_use = use;
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
  const StageDevices& front = devices_.front();
  return problem_.workload.global_batch_size /
         (front.data_parallel * front.sharding.micro_batch_size);
}

std::optional<Seconds> AnalyticModel::LeastTimeIfPriced(const ParallelPlan& plan) {
  BuildRuns(plan);
  for (const StageDevices& devices : devices_) {
    if (devices.unit->times == nullptr) return std::nullopt;
  }
  Evaluation e = {.micro_batches = MicroBatches()};
  EvaluateTime(plan, PipelineModel::kLeast, e);
  return e.step;
}

// The work of every run, the time that it occupies its stages in occupied_, and the longest tail.
void AnalyticModel::TimeStages(Evaluation& e) {
  const int p = StageTotal();
  const bool has_two_directions = devices_.front().directions == 2;
  for (StageDevices& devices : devices_) devices.groups = PlaceDataGroups(devices);
  occupied_.clear();
  PipelineShape half = e.shape;  // of each direction
  half.micro_batches /= devices_.front().directions;
  std::vector<TimedStage> timed;  // each stage, where a device has two
  e.slowest.stage = &runs_.front().stage;
  for (StageRun& run : runs_) {
    const StageTime time = TimeOf(run.stage, p > 1);
    const Seconds occupied = OccupiedTime(time.wall, e.shape, p);
    const Seconds message = (occupied - time.wall) / 2;  // of each pass
    occupied_.push_back({.time = occupied, .count = run.count});
    run.work = {.forward = time.work.forward + message,
                .backward = time.work.backward + message,
                .weight_gradient = time.work.weight_gradient};
    if (occupied > e.slowest_occupied) {
      e.slowest = {.stage = &run.stage, .wall = time.wall};
      e.slowest_occupied = occupied;
    }
    const StepTail tail = TailOf(run.stage, time, half, state_bytes_, problem_);
    if (has_two_directions) {
      timed.insert(timed.end(), static_cast<std::size_t>(run.count),
                   {.stage = &run.stage, .wall = time.wall, .tail = tail});
    }
    if (Sum(tail) > Sum(e.tail)) e.tail = tail;
  }
  if (has_two_directions) TimeDevices(timed, e);
}

// Of devices that have two stages each.
void AnalyticModel::TimeDevices(const std::vector<TimedStage>& stages, Evaluation& e) {
  e.slowest_occupied = Seconds(0);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const TimedStage& own = stages[i];
    const TimedStage& other = stages[stages.size() - 1 - i];
    const Seconds wall = own.wall / 2 + other.wall / 2;
    const Seconds occupied = OccupiedTime(wall, e.shape, StageTotal());
    if (occupied > e.slowest_occupied) {
      e.slowest = {.stage = own.stage, .other = other.stage, .wall = wall};
      e.slowest_occupied = occupied;
    }
    const StepTail both = {.communication = own.tail.communication + other.tail.communication,
                           .optimizer = own.tail.optimizer + other.tail.optimizer};
    if (i == 0 || Sum(both) > Sum(e.tail)) e.tail = both;
  }
}

std::span<const StageWork> AnalyticModel::StageWorks() {
  works_.clear();
  for (const StageRun& run : runs_) {
    works_.insert(works_.end(), static_cast<std::size_t>(run.count), run.work);
  }
  return works_;
}

PipelineProgram AnalyticModel::ProgramOf(const PipelineShape& shape) {
  return {.schedule = shape.schedule,
          .micro_batches = shape.micro_batches,
          .virtual_stages = shape.virtual_stages,
          .message = shape.overlaps_point_to_point ? shape.point_to_point : Seconds(0),
          .stages = StageWorks()};
}

Seconds AnalyticModel::PipelineTimeBy(PipelineModel model, const Evaluation& e) {
  if (StageTotal() == 1) return e.micro_batches * e.slowest_occupied;
  if (model == PipelineModel::kClosedForm && HasClosedForm(e.shape.schedule)) {
    return PipelineTime(occupied_, e.shape);
  }
  const PipelineProgram program = ProgramOf(e.shape);
  return model == PipelineModel::kSimulated ? simulator_.Simulate(program)
                                            : kRoundingSlack * LeastPipelineTime(program);
}

// Gradients and states are all devices' turn at once.
void AnalyticModel::Share(const ParallelPlan& plan, Evaluation& e) const {
  const DeviceSharing sharing = SharingOf(devices_.front(), StageTotal(), plan.rank_order);
  const Seconds alone = e.pipeline;
  const auto busy = devices_.front().directions == 2 ? BothDirections(occupied_) : occupied_;
  e.pipeline = SharedPipelineTime(alone, busy, e.micro_batches, sharing);
  e.stretch = e.pipeline / alone;
  e.busy_stretch =
      std::min(sharing.per_physical, e.pipeline / (e.micro_batches * e.slowest_occupied));
  e.tail.communication *= sharing.per_physical;
  e.tail.optimizer *= sharing.per_physical;
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
  TimeStages(e);
  e.pipeline = PipelineTimeBy(model, e);
  if (problem_.cluster.pools.front().physical_devices_per_node.has_value()) Share(plan, e);
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
  timeline.operations = simulator_.OperationsOf(ProgramOf(e.shape));
  for (ScheduledOperation& operation : timeline.operations) {
    operation.start *= e.stretch * ratio;
    operation.end *= e.stretch * ratio;
  }
  return timeline;
}

void AnalyticModel::FillBreakdown(const Evaluation& e, Estimate& estimate) const {
  const double m = e.micro_batches;
  const auto passes_of = [&](const Stage& stage) {
    return PassesOf(stage, TimeOf(stage, StageTotal() > 1));
  };
  StagePasses<PassTime> slow = passes_of(*e.slowest.stage);
  if (e.slowest.other != nullptr) slow = Mean(slow, passes_of(*e.slowest.other));
  TimeBreakdown& line = estimate.breakdown;
  const double busy = m * e.busy_stretch;
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) {
    line[i] = busy * (slow.forward.by_cause[i] + slow.backward.by_cause[i]);
  }
  const Seconds device = slow.forward.device + slow.backward.device;
  line[Index(TimeCause::kHost)] += busy * (e.slowest.wall - device);
  line[Index(TimeCause::kPipelineP2p)] += busy * (e.slowest_occupied - e.slowest.wall);
  line[Index(TimeCause::kPipelineBubble)] += e.pipeline - busy * e.slowest_occupied;
  line[Index(TimeCause::kDataParallel)] += e.tail.communication;
  line[Index(TimeCause::kOptimizer)] += e.tail.optimizer;
  line[Index(TimeCause::kFixed)] += problem_.profile.fixed_per_step;
  for (Seconds& part : line) part *= e.ratio;
}

void AnalyticModel::FillStages(const ParallelPlan& plan, const Evaluation& e,
                               Estimate& estimate) const {
  for (int device = 0; device < StageTotal(); ++device) {
    estimate.stage_memory.push_back(ScaledMemory(
        MemoryOfDevice(plan, StageAt(device), device, e.micro_batches), calibration_.memory_ratio));
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
  const ChipSpec* chip = &devices_.front().pool->chip;  // of the busiest stage
  for (const StageRun& run : runs_) {
    const StageDevices& stage = *run.stage.devices;
    if (run.first <= estimate.busiest_stage) chip = &stage.pool->chip;
    const int own = run.count * stage.data_parallel * stage.sharding.tensor_parallel *
                    stage.sharding.context_parallel;
    devices += own;
    peak +=
        own *
        NominalPeak(stage.pool->chip, problem_.workload.precision).value_or(FlopsPerSecond{0}).rate;
  }
  peak /= DevicesPerPhysical(problem_.cluster.pools.front());  // only where it is the one pool
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
