#include "estimator/model/time_model.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "estimator/layer/layer_cost.h"
#include "estimator/layer/unit_costs.h"
#include "estimator/model/device_sharing.h"
#include "estimator/model/model_caches.h"
#include "estimator/model/pipeline_messages.h"
#include "estimator/model/stage.h"
#include "estimator/model/unit_cost_cache.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/pipeline/simulation.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/framework_profile.h"

namespace meshwright {
namespace {

std::size_t Index(TimeCause cause) { return static_cast<std::size_t>(cause); }

// A stage of a device that has another beside it.
struct TimedStage {
  const Stage* stage = nullptr;
  Seconds wall = Seconds(0);
  StepTail tail = {};
};

// Returns the slowest of devices that have two stages each.
SlowestDevice SlowestPair(const std::vector<TimedStage>& stages, const PipelineShape& shape) {
  SlowestDevice slowest = {.stage = stages.front().stage};
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const TimedStage& own = stages[i];
    const TimedStage& other = stages[stages.size() - 1 - i];
    const Seconds wall = own.wall / 2 + other.wall / 2;
    const Seconds occupied = OccupiedTime(wall, shape, shape.stages);
    if (occupied > slowest.occupied) {
      slowest = {.stage = own.stage, .other = other.stage, .wall = wall, .occupied = occupied};
    }
  }
  return slowest;
}

// Returns the longest tail of such devices, whose stages follow one another.
StepTail LongestOfPairs(const std::vector<TimedStage>& stages) {
  StepTail longest;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StepTail& own = stages[i].tail;
    const StepTail& other = stages[stages.size() - 1 - i].tail;
    const StepTail both = {.communication = own.communication + other.communication,
                           .optimizer = own.optimizer + other.optimizer};
    if (i == 0 || Sum(both) > Sum(longest)) longest = both;
  }
  return longest;
}

// Repeats the work of each run for each of its stages. A run is anything with a `count`.
template <typename Runs>
std::vector<StageWork> RepeatForEachStage(const Runs& runs, std::span<const StageWork> works,
                                          int stage_count) {
  std::vector<StageWork> each;
  each.reserve(static_cast<std::size_t>(stage_count));
  for (std::size_t i = 0; i < works.size(); ++i) {
    each.insert(each.end(), static_cast<std::size_t>(runs[i].count), works[i]);
  }
  return each;
}

// `works` are those of each stage.
PipelineProgram ProgramOf(const PlanTime& plan, std::span<const StageWork> works) {
  const PipelineShape& shape = plan.shape;
  const bool overlaps = shape.overlaps_point_to_point;
  return {.schedule = shape.schedule,
          .micro_batches = shape.micro_batches,
          .virtual_stages = shape.virtual_stages,
          .message = overlaps ? shape.point_to_point : Seconds(0),
          .stages = works,
          .hops = overlaps ? std::span<const Hop>(plan.hops) : std::span<const Hop>()};
}

// Equal stages of a run that also have equal messages before and behind them.
struct StagePiece {
  int count = 1;
  Hop slower = {};              // the slower messages of the two sides
  Seconds behind = Seconds(0);  // both messages behind each
};

// Returns the hop behind stage `i`, or none behind the last stage unless it has several chunks.
Hop HopBehind(std::span<const Hop> hops, int i) {
  const auto at = static_cast<std::size_t>(i);
  return at < hops.size() ? hops[at] : Hop{};
}

// Divides a run where its messages differ: only its first and last stage have other neighbours than
// the rest. `hops` are those of the pipeline of `stage_count` stages, or empty.
absl::InlinedVector<StagePiece, 3> PiecesOf(const StageRun& run, std::span<const Hop> hops,
                                            int stage_count) {
  if (hops.empty()) return {{.count = run.count}};
  absl::InlinedVector<StagePiece, 3> pieces;
  const auto add = [&](int stage, int count) {
    const Hop before = HopBehind(hops, stage == 0 ? stage_count - 1 : stage - 1);
    const Hop behind = HopBehind(hops, stage);
    pieces.push_back({.count = count,
                      .slower = Sum(before) > Sum(behind) ? before : behind,
                      .behind = stage + 1 < stage_count ? Sum(behind) : Seconds(0)});
  };
  add(run.first, 1);
  if (run.count > 2) add(run.first + 1, run.count - 2);
  if (run.count > 1) add(run.first + run.count - 1, 1);
  return pieces;
}

// The messages that occupy a stage, if nothing runs beside them.
Hop OccupyingMessages(const StageTime& time, const PipelineShape& shape, const StagePiece& piece,
                      bool has_hops) {
  if (!has_hops) {
    const Seconds message = (OccupiedTime(time.wall, shape, shape.stages) - time.wall) / 2;
    return {.forward = message, .backward = message};
  }
  if (shape.overlaps_point_to_point) return {};
  return {.forward = shape.virtual_stages * piece.slower.forward,
          .backward = shape.virtual_stages * piece.slower.backward};
}

// Stretches a step whose devices share physical ones. After the pipeline all devices that share one
// work at once.
PlanTime Shared(const StageRuns& stages, std::span<const OccupiedRun> occupied, PlanTime time) {
  const StageDevices& devices = stages.devices().front();
  const DeviceSharing sharing = SharingOf(devices, stages.stage_count(), stages.rank_order());
  const Seconds alone = time.pipeline;
  const int micro_batches = time.shape.micro_batches;
  time.pipeline = devices.directions == 2
                      ? SharedPipelineTime(alone, BothDirections(occupied), micro_batches, sharing)
                      : SharedPipelineTime(alone, occupied, micro_batches, sharing);
  time.stretch = time.pipeline / alone;
  time.busy_stretch =
      std::min(sharing.per_physical, time.pipeline / (micro_batches * time.slowest.occupied));
  time.tail.communication *= sharing.per_physical;
  time.tail.optimizer *= sharing.per_physical;
  return time;
}

StagePasses<PassTime> PassesOf(const Stage& stage, bool is_pipelined, UnitCostCache& costs) {
  const PricedUnit& unit = costs.TimesOf(*stage.devices);
  return PassesOf(stage, unit.times, TimeOf(stage, unit.sums, is_pipelined));
}

std::vector<double> RatiosOf(const EstimatorProblem& problem, const Calibration& calibration) {
  std::vector<double> ratios;
  ratios.reserve(problem.cluster.pools.size());
  for (const NodePool& pool : problem.cluster.pools) {
    const ChipLesson* lesson = LessonOf(calibration, pool.chip.id);
    ratios.push_back(lesson == nullptr ? 1 : lesson->time_ratio);
  }
  return ratios;
}

}  // namespace

// The time of one micro-batch on each stage, and of what follows the pipeline.
struct TimeModel::StageTimes {
  // Work of a stage of each run, with the messages that nothing runs beside. Runs are those of the
  // plan, or pieces of them whose stages have equal messages.
  absl::InlinedVector<StageWork, 4> works = {};
  absl::InlinedVector<OccupiedRun, 4> occupied = {};  // the same runs
  std::vector<Seconds> behind = {};  // the same runs' messages that run beside, if they differ
  SlowestDevice slowest = {};
  StepTail tail = {};  // the longest of all devices

  void Add(const StageRun& run, const StageTime& time, const PlanTime& plan);
};

void TimeModel::StageTimes::Add(const StageRun& run, const StageTime& time, const PlanTime& plan) {
  const PipelineShape& shape = plan.shape;
  const bool has_hops = !plan.hops.empty();
  for (const StagePiece& piece : PiecesOf(run, plan.hops, shape.stages)) {
    const Hop messages = OccupyingMessages(time, shape, piece, has_hops);
    OccupiedRun& occupied_run = occupied.emplace_back();
    occupied_run.time =
        has_hops ? time.wall + Sum(messages) : OccupiedTime(time.wall, shape, shape.stages);
    occupied_run.count = piece.count;
    if (has_hops) behind.push_back(piece.behind);
    StageWork& work = works.emplace_back();
    work.forward = time.work.forward + messages.forward;
    work.backward = time.work.backward + messages.backward;
    work.weight_gradient = time.work.weight_gradient;
    if (occupied_run.time > slowest.occupied) {
      slowest = {.stage = &run.stage, .wall = time.wall, .occupied = occupied_run.time};
    }
  }
}

TimeModel::TimeModel(const EstimatorProblem& problem, const Calibration& calibration)
    : problem_(problem),
      state_bytes_(BytesPerParameter(problem.workload, problem.profile)),
      ratios_(RatiosOf(problem, calibration)) {}

double TimeModel::RatioOf(const StageDevices& devices) const {
  return ratios_[static_cast<std::size_t>(devices.pool - problem_.cluster.pools.data())];
}

PipelineShape TimeModel::ShapeOf(const StageRuns& stages, Seconds message) const {
  const int p = stages.stage_count();
  return {
      .schedule = stages.schedule(),
      .micro_batches = stages.micro_batches(),
      .stages = p,
      .virtual_stages = LayoutOf(stages.schedule(), p, stages.virtual_stages()).chunks_per_device,
      .point_to_point = message,
      .overlaps_point_to_point = problem_.workload.overlap.pipeline_p2p &&
                                 (stages.schedule() == Schedule::kInterleaved1f1b ||
                                  !problem_.profile.overlaps_only_interleaved_sends)};
}

TimeModel::StageTimes TimeModel::TimeStages(const StageRuns& stages, const PlanTime& plan,
                                            ModelCaches& caches) const {
  const PipelineShape& shape = plan.shape;
  const int directions = stages.devices().front().directions;
  StageTimes times;
  times.slowest.stage = &stages.runs().front().stage;
  std::vector<TimedStage> timed;  // each stage, if a device has two
  const StageDevices* devices = times.slowest.stage->devices;
  const PricedUnit* unit = &caches.units.TimesOf(*devices);
  double ratio = RatioOf(*devices);
  std::optional<TailModel> tails(std::in_place, *devices, state_bytes_, problem_);
  const Seconds tied = TiedGradientsTime(stages.devices().front(), stages.devices().back(),
                                         state_bytes_.reduced_gradient, problem_);
  for (const StageRun& run : stages.runs()) {
    const Stage& stage = run.stage;
    if (stage.devices != devices) {
      devices = stage.devices;
      unit = &caches.units.TimesOf(*devices);
      ratio = RatioOf(*devices);
      tails.emplace(*devices, state_bytes_, problem_);
    }
    const StageTime modelled = TimeOf(stage, unit->sums, shape.stages > 1);
    const StageTime time = Scaled(modelled, ratio);
    times.Add(run, time, plan);
    StepTail tail = Scaled(tails->Of(stage, modelled, shape), ratio);
    if (stage.has_embedding || stage.has_head) tail.communication += tied;
    if (directions == 2) {
      timed.insert(timed.end(), static_cast<std::size_t>(run.count),
                   {.stage = &stage, .wall = time.wall, .tail = tail});
    }
    if (Sum(tail) > Sum(times.tail)) times.tail = tail;
  }
  if (directions == 2) {
    times.slowest = SlowestPair(timed, shape);
    times.tail = LongestOfPairs(timed);
  }
  return times;
}

Seconds TimeModel::PipelineTimeBy(PipelineModel model, const PlanTime& plan,
                                  const StageTimes& times, ModelCaches& caches) {
  const PipelineShape& shape = plan.shape;
  if (shape.stages == 1) return shape.micro_batches * times.slowest.occupied;
  if (model == PipelineModel::kClosedForm && HasClosedForm(shape.schedule)) {
    const bool has_hops = shape.overlaps_point_to_point && !plan.hops.empty();
    return has_hops ? PipelineTime(times.occupied, times.behind, shape)
                    : PipelineTime(times.occupied, shape);
  }
  const std::vector<StageWork> works =
      RepeatForEachStage(times.occupied, times.works, shape.stages);
  const PipelineProgram program = ProgramOf(plan, works);
  return model == PipelineModel::kSimulated ? caches.pipelines.Simulate(program)
                                            : kRoundingSlack * LeastPipelineTime(program);
}

PlanTime TimeModel::Of(const StageRuns& stages, PipelineModel model, ModelCaches& caches) const {
  PlanTime time;
  PipelineMessages messages = MessagesOf(stages, problem_);
  time.shape = ShapeOf(stages, messages.each);
  time.hops = std::move(messages.hops);
  const StageTimes times = TimeStages(stages, time, caches);
  time.slowest = times.slowest;
  time.tail = times.tail;
  time.pipeline = PipelineTimeBy(model, time, times, caches);
  if (problem_.cluster.pools.front().physical_devices_per_node.has_value()) {
    time = Shared(stages, times.occupied, time);
  }
  time.step = time.pipeline + time.tail.communication + time.tail.optimizer +
              problem_.profile.fixed_per_step;
  return time;
}

TimeBreakdown TimeModel::BreakdownOf(const StageRuns& stages, const PlanTime& time,
                                     ModelCaches& caches) const {
  const bool is_pipelined = stages.stage_count() > 1;
  const SlowestDevice& slowest = time.slowest;
  StagePasses<PassTime> slow = Scaled(PassesOf(*slowest.stage, is_pipelined, caches.units),
                                      RatioOf(*slowest.stage->devices));
  if (slowest.other != nullptr) {
    slow = Mean(slow, PassesOf(*slowest.other, is_pipelined, caches.units));
  }
  TimeBreakdown line = {};
  const double busy = static_cast<double>(time.shape.micro_batches) * time.busy_stretch;
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) {
    line[i] = busy * (slow.forward.by_cause[i] + slow.backward.by_cause[i]);
  }
  const Seconds device = slow.forward.device + slow.backward.device;
  line[Index(TimeCause::kHost)] += busy * (slowest.wall - device);
  line[Index(TimeCause::kPipelineP2p)] += busy * (slowest.occupied - slowest.wall);
  line[Index(TimeCause::kPipelineBubble)] += time.pipeline - busy * slowest.occupied;
  line[Index(TimeCause::kDataParallel)] += time.tail.communication;
  line[Index(TimeCause::kOptimizer)] += time.tail.optimizer;
  line[Index(TimeCause::kFixed)] += problem_.profile.fixed_per_step;
  return line;
}

std::vector<StageSeconds> TimeModel::EachStage(const StageRuns& stages, const PlanTime& time,
                                               ModelCaches& caches) const {
  const int count = stages.stage_count();
  const auto between = [&](int first) {  // this stage and the next
    if (first < 0 || first + 1 >= count) return Seconds(0);
    return time.hops.empty() ? 2 * time.shape.point_to_point : Sum(HopBehind(time.hops, first));
  };
  std::vector<StageSeconds> each;
  for (const StageRun& run : stages.runs()) {
    const PricedUnit& unit = caches.units.TimesOf(*run.stage.devices);
    const StageTime own =
        Scaled(TimeOf(run.stage, unit.sums, count > 1), RatioOf(*run.stage.devices));
    for (int i = run.first; i < run.first + run.count; ++i) {
      each.push_back({.forward = own.work.forward,
                      .backward = own.work.backward,
                      .messages = between(i - 1) + between(i)});
    }
  }
  return each;
}

std::vector<ScheduledOperation> TimeModel::OperationsOf(const StageRuns& stages,
                                                        const PlanTime& time,
                                                        ModelCaches& caches) const {
  const StageTimes times = TimeStages(stages, time, caches);
  const std::vector<StageWork> works =
      RepeatForEachStage(times.occupied, times.works, time.shape.stages);
  return caches.pipelines.OperationsOf(ProgramOf(time, works));
}

Seconds TimeModel::LeastPipeline(const StageRuns& stages, ModelCaches& caches) const {
  absl::InlinedVector<StageWork, 4> works;
  for (const StageRun& run : stages.runs()) {
    const PricedUnit& unit = caches.units.TimesOf(*run.stage.devices);
    const StageTime time = TimeOf(run.stage, unit.sums, stages.stage_count() > 1);
    works.push_back(Scaled(time, RatioOf(*run.stage.devices)).work);
  }
  const std::vector<StageWork> each =
      RepeatForEachStage(stages.runs(), works, stages.stage_count());
  return LeastPipelineTime({.schedule = stages.schedule(),
                            .micro_batches = stages.micro_batches(),
                            .virtual_stages = stages.virtual_stages(),
                            .stages = each});
}

}  // namespace meshwright
