#include "server/tuner/search/exhaustive.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <system_error>
#include <thread>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "estimator/model/data_parallel.h"
#include "estimator/model/plan_bounds.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/problem/estimator_problem.h"
#include "pruner/pruner.h"
#include "pruner/rules/history.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/recompute.h"
#include "search_space/base/units.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/search/best_plans.h"
#include "server/tuner/search/least_time.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kStopEvery = 8;  // nodes or groups of plans between two looks at the clock
constexpr int kTaskDepth = static_cast<int>(Dimension::kContextParallel) + 1;
constexpr int kGroupDepth = static_cast<int>(Dimension::kOptimizerOffload);
constexpr int kMicroBatchDepth = static_cast<int>(Dimension::kMicroBatchSize) + 1;
constexpr int kShardingDepth = static_cast<int>(Dimension::kRankOrder) + 1;
constexpr int kPipelineDepth = static_cast<int>(Dimension::kFirstStage) + 1;
constexpr unsigned kMostWorkers = 16;
constexpr int kCoarseMicroBatch = 4;
constexpr int kCoarseContext = 8;

// One rule and what it removed.
struct Tally {
  const PruneRule* rule = nullptr;
  bool is_on = true;
  std::int64_t count = 0;
};

std::vector<Tally> TalliesOf(const SearchOptions& options) {
  std::vector<Tally> tallies;
  for (const PruneRule& rule : PruneRules()) {
    const bool is_off = std::find(options.disabled_rules.begin(), options.disabled_rules.end(),
                                  rule.name) != options.disabled_rules.end();
    tallies.push_back({.rule = &rule, .is_on = !is_off});
  }
  return tallies;
}

// What all workers see.
struct Shared {
  const SearchSpace& space;
  const SearchOptions& options;
  std::atomic<std::int64_t> considered = 0;
  std::atomic<std::int64_t> evaluated = 0;
  std::atomic<double> least_seconds = std::numeric_limits<double>::infinity();  // for progress only
  std::atomic<bool> stopped = false;
  std::atomic<StopCause> cause = StopCause::kFinished;
};

void Lower(std::atomic<double>& least, double value) {
  double seen = least;
  while (value < seen && !least.compare_exchange_weak(seen, value)) {
  }
}

// The part of the space below one prefix.
struct Task {
  ParallelPlan prefix = {};
  int depth = kTaskDepth;
  bool is_coarse = false;  // only plans of a coarse grid, by the closed form
  bool is_done = false;
  BestPlans kept;
  std::vector<Tally> tallies;
  std::int64_t evaluated = 0;
};

// Whether what is set so far is what plans by hand have.
bool IsCoarse(const PlanWalk& walk, const SpaceOptions& options) {
  const ParallelPlan& plan = walk.plan();
  const bool has_sequence = walk.depth() > static_cast<int>(Dimension::kSequenceParallel);
  return plan.context_parallel <= kCoarseContext &&
         plan.context_parallel_kind == options.context_parallel_kinds.front() &&
         plan.expert_tensor_parallel == 1 && plan.micro_batch_size <= kCoarseMicroBatch &&
         plan.layers_per_stage.empty() && plan.zero_group_size == 0 &&
         (!has_sequence || plan.sequence_parallel == (plan.tensor_parallel > 1));
}

// Counts a node that a rule cuts.
bool Cut(const ParallelPlan& plan, int depth, const EstimatorProblem& problem, Shared& shared,
         std::vector<Tally>& tallies) {
  for (Tally& tally : tallies) {
    if (!tally.is_on || tally.rule->check == nullptr) continue;
    if (!tally.rule->check({.problem = problem, .space = shared.space}, plan, depth).has_value())
      continue;
    const std::int64_t below = shared.space.CountBelow(plan, depth);
    tally.count += below;
    shared.considered += below;
    return true;
  }
  return false;
}

class Worker {
 public:
  Worker(Shared& shared, const EstimatorProblem& problem, const Calibration& calibration,
         bool reports)
      : shared_(shared),
        model_(problem, calibration),
        failed_(calibration, problem),
        reports_(reports) {}

  // `known` are plans found before; they bound what is worth a look.
  void Run(Task& task, const BestPlans& known) {
    task_ = &task;
    task.kept.Merge(known);
    PlanWalk walk(shared_.space, task.prefix, task.depth);
    while (!shared_.stopped && walk.Next()) {
      if (walk.depth() >= kMicroBatchDepth) LookAround();
      if (task.is_coarse && !IsCoarse(walk, shared_.space.options())) {
        walk.Skip();
        continue;
      }
      if (Cut(walk.plan(), walk.depth(), model_.problem(), shared_, task.tallies)) {
        walk.Skip();
        continue;
      }
      if (IsHopeless(walk)) {
        walk.Skip();
        continue;
      }
      if (walk.depth() < kGroupDepth) continue;
      walk.Skip();
      TryGroup(walk.plan());
    }
    task.is_done = !shared_.stopped;
  }

  // What no plan of the tasks that were cut short is below.
  std::optional<Seconds> LeastTimeLeft(const std::vector<Task>& tasks) {
    std::optional<Seconds> least;
    for (const Task& task : tasks) {
      if (task.is_done) continue;
      const std::optional<Seconds> own = LeastTimeOf(shared_.space, task.prefix, task.depth,
                                                     shared_.options.disabled_rules, model_);
      if (own.has_value()) least = std::min(least.value_or(*own), *own);
    }
    return least;
  }

  // The best of a coarse grid over the whole space: chosen by the closed form, then simulated.
  BestPlans Seeds() {
    Task task = {.prefix = shared_.space.Root(),
                 .depth = 0,
                 .is_coarse = true,
                 .kept = BestPlans(kSeedCount),
                 .tallies = TalliesOf(shared_.options)};
    Run(task, BestPlans(0));
    task_ = nullptr;  // ends here
    BestPlans plans(shared_.options.plan_count);
    for (const RecomputeChoice& seed : task.kept.best()) {
      plans.Offer({.plan = seed.plan, .estimate = model_.Quick(seed.plan)});
    }
    return plans;
  }

 private:
  Tally& TallyOf(std::string_view name) {
    return *std::find_if(task_->tallies.begin(), task_->tallies.end(),
                         [&](const Tally& t) { return t.rule->name == name; });
  }

  // Whether nothing below the node fits, or is of use; counts it then.
  bool IsHopeless(const PlanWalk& walk) {
    Tally* cause = nullptr;
    if (walk.depth() == kMicroBatchDepth) {
      cause = TooSlow([&] { return PlanBounds(model_).LeastTimeOfAnyExperts(walk.plan()); });
    } else if (walk.depth() == kShardingDepth) {
      cause = TooLarge(walk.plan());
      if (cause == nullptr)
        cause = TooSlow([&] { return PlanBounds(model_).LeastTimeBelow(walk.plan()); });
    } else if (walk.depth() == kPipelineDepth &&
               model_.problem().profile.gradient_accumulation_is_fused) {
      cause = TooSlow(
          [&] { return std::optional(PlanBounds(model_).LeastTimeOfPipeline(walk.plan())); });
    }
    if (cause == nullptr) return false;
    const std::int64_t below = shared_.space.CountBelow(walk.plan(), walk.depth());
    cause->count += below;
    shared_.considered += below;
    return true;
  }

  Tally* TooLarge(const ParallelPlan& plan) {
    const MostOffloaded most = shared_.space.MostOffloadedBelow(plan);
    const Bytes least = PlanBounds(model_).LeastMemoryBelow(plan, most);
    const bool is_oversized = least > model_.problem().cluster.pools.front().memory_capacity;
    if (!is_oversized && !PlanBounds(model_).HasFailedBelow(plan, most)) return nullptr;
    Tally& cause = TallyOf(is_oversized ? kMemoryRule : kHistoryRule);
    if (!cause.is_on) return nullptr;
    // Until something fits, the plan that needs least is looked for.
    const std::optional<OversizedPlan>& nearest = task_->kept.nearest();
    const bool is_of_use =
        task_->kept.best().empty() && !(nearest.has_value() && nearest->reserved_memory < least);
    return is_of_use ? nullptr : &cause;
  }

  // `least_time` of a plan is asked for where it can cut.
  template <typename LeastTime>
  Tally* TooSlow(const LeastTime& least_time) {
    Tally& bound = TallyOf(kBoundRule);
    const std::optional<Seconds> slowest = task_->kept.SlowestUseful();
    if (!bound.is_on || !slowest.has_value()) return nullptr;
    const std::optional<Seconds> least = least_time();
    return least.has_value() && *least > *slowest ? &bound : nullptr;
  }

  // All shares of offload and recomputation choices of one plan. Offload saves memory and usually
  // costs time: then, where the plan fits without recomputation, more of it is of no use.
  void TryGroup(const ParallelPlan& group) {
    ParallelPlan plan = group;
    std::vector<int> fitting;
    for (const int percent : shared_.space.Values(Dimension::kOptimizerOffload, group)) {
      shared_.space.Set(Dimension::kOptimizerOffload, percent, plan);
      if (Cut(plan, kGroupDepth + 1, model_.problem(), shared_, task_->tallies)) continue;
      if (!offload_costs_time_) fitting.clear();
      TryActivationOffload(plan, fitting);
    }
  }

  // `fitting`: per cents of activations that fitted with this share of the optimizer or a smaller
  // one. Exposed copies never shorten a step whose order of operations is fixed.
  void TryActivationOffload(const ParallelPlan& group, std::vector<int>& fitting) {
    ParallelPlan plan = group;
    Tally& dominance = TallyOf(kDominanceRule);
    const bool costs_time = HasFixedOrder(group.schedule);
    for (const int percent : shared_.space.Values(Dimension::kActivationOffload, group)) {
      shared_.space.Set(Dimension::kActivationOffload, percent, plan);
      const std::int64_t below = shared_.space.CountBelow(plan, kGroupDepth + 2);
      shared_.considered += below;
      const bool is_dominated = std::ranges::any_of(
          fitting, [&](int less) { return less == percent || (costs_time && less < percent); });
      if (is_dominated && dominance.is_on) {
        dominance.count += below;
      } else if (TryRecomputation(plan)) {
        fitting.push_back(percent);
      }
    }
  }

  // Whether the plan fits without recomputation.
  bool TryRecomputation(const ParallelPlan& plan) {
    Tally& memory = TallyOf(kMemoryRule);
    Tally& dominance = TallyOf(kDominanceRule);
    Tally& bound = TallyOf(kBoundRule);
    const bool has_failed = failed_.HaveOneLike(plan);
    NarrowOptions options = {.by_memory = memory.is_on,
                             .by_dominance = dominance.is_on && !has_failed,
                             .by_closed_form = task_->is_coarse,
                             .failed = has_failed ? &failed_ : nullptr};
    if (bound.is_on) options.slowest_useful = task_->kept.SlowestUseful();
    const NarrowedRecompute narrowed = NarrowRecompute(model_, shared_.space, plan, options);
    const std::int64_t by_history = PrunedByHistory(plan, narrowed);
    TallyOf(kHistoryRule).count += by_history + narrowed.failed;
    memory.count += narrowed.pruned_by_memory - by_history;
    dominance.count += narrowed.pruned_by_dominance;
    bound.count += narrowed.pruned_by_bound;
    task_->evaluated += narrowed.evaluated;
    shared_.evaluated += narrowed.evaluated;
    bool fits_plain = false;
    for (const RecomputeChoice& choice : narrowed.kept) {
      task_->kept.Offer(choice);
      Lower(shared_.least_seconds, choice.estimate.step_time.count());
      fits_plain = fits_plain || (choice.estimate.fits &&
                                  choice.plan.recompute.granularity == RecomputeGranularity::kNone);
    }
    if (task_->kept.best().empty() && narrowed.least_memory.has_value()) {
      task_->kept.OfferNearest(*narrowed.least_memory);
    }
    return fits_plain;
  }

  // Of the choices that do not fit, those that would if nothing had run out of memory.
  std::int64_t PrunedByHistory(const ParallelPlan& plan, const NarrowedRecompute& narrowed) {
    const bool may_be = model_.calibration().out_of_memory.has_value();
    if (!may_be || narrowed.pruned_by_memory == 0) return 0;
    const std::int64_t oversized = CountOversized(model_, shared_.space, plan);
    return std::max<std::int64_t>(0, narrowed.pruned_by_memory - oversized);
  }

  void LookAround() {
    const SearchOptions& options = shared_.options;
    if (options.first_fit_is_enough && !task_->kept.best().empty()) shared_.stopped = true;
    if (++groups_ % kStopEvery != 0) return;
    if (reports_ && options.on_progress) {
      Progress progress = {.phase = "searching",
                           .space_count = space_count_,
                           .considered_count = shared_.considered,
                           .evaluated_count = shared_.evaluated};
      const double least = shared_.least_seconds;
      if (std::isfinite(least)) progress.best_step_time = Seconds(least);
      options.on_progress(progress);
    }
    if (!options.stop) return;
    const std::optional<StopCause> cause = options.stop();
    if (!cause.has_value()) return;
    shared_.cause = *cause;
    shared_.stopped = true;
  }

  Shared& shared_;
  AnalyticModel model_;
  FailedPlans failed_;
  bool reports_;
  bool offload_costs_time_ = OffloadCostsTime(model_.problem());
  std::int64_t space_count_ = shared_.space.Count();
  Task* task_ = nullptr;
  std::int64_t groups_ = 0;
};

// Workers take the tasks [begin, end) in turn; the caller is one of them.
void RunTasks(std::vector<Task>& tasks, std::size_t begin, std::size_t end, const BestPlans& known,
              std::vector<Worker>& workers) {
  std::atomic<std::size_t> next = begin;
  const auto work = [&](Worker& worker) {
    for (std::size_t i = next++; i < end; i = next++) worker.Run(tasks[i], known);
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(workers.size(), end - begin); ++i) {
    try {
      threads.emplace_back(work, std::ref(workers[i]));
    } catch (const std::system_error&) {
      break;  // no more threads to be had: those there are do the work
    }
  }
  work(workers.front());
}

std::size_t WorkerCount(const SearchOptions& options) {
  if (options.first_fit_is_enough) return 1;
  if (options.worker_count > 0) return static_cast<std::size_t>(options.worker_count);
  return std::clamp(std::thread::hardware_concurrency(), 1U, kMostWorkers);
}

void Summarise(const std::vector<Tally>& tallies, const Shared& shared, SearchSummary& summary) {
  summary.complete = !shared.stopped;
  summary.stop_cause = shared.cause;
  for (const Tally& tally : tallies) {
    summary.pruned_count_by_rule.emplace_back(std::string(tally.rule->name), tally.count);
  }
}

// Plans to begin with. Their cost model is their own, since what a worker has priced before decides
// which bounds it has, and which tasks a worker takes is luck.
BestPlans SeedsOf(const SearchSpace& space, const EstimatorProblem& problem,
                  const Calibration& calibration, const SearchOptions& options) {
  if (options.first_fit_is_enough) return BestPlans(options.plan_count);
  Shared shared = {.space = space, .options = options};
  return Worker(shared, problem, calibration, false).Seeds();
}

}  // namespace

SearchFound SearchExhaustively(const SearchSpace& space, const EstimatorProblem& problem,
                               const Calibration& calibration, const SearchOptions& options) {
  const Clock::time_point start = Clock::now();
  Shared shared = {.space = space, .options = options};
  std::vector<Tally> tallies = TalliesOf(options);
  std::vector<Task> tasks;
  for (PlanWalk walk(space); walk.Next();) {
    if (Cut(walk.plan(), walk.depth(), problem, shared, tallies)) {
      walk.Skip();
    } else if (walk.depth() == kTaskDepth) {
      tasks.push_back({.prefix = walk.plan(),
                       .kept = BestPlans(options.plan_count),
                       .tallies = TalliesOf(options)});
      walk.Skip();
    }
  }
  std::vector<Worker> workers;
  for (std::size_t i = 0; i < WorkerCount(options); ++i) {
    workers.emplace_back(shared, problem, calibration, i == 0);
  }
  BestPlans all = SeedsOf(space, problem, calibration, options);
  if (!all.best().empty()) {
    Lower(shared.least_seconds, all.best().front().estimate.step_time.count());
  }
  // Plans without context parallelism first: most winners are among them, and bound the rest.
  const auto rest = std::stable_partition(tasks.begin(), tasks.end(), [](const Task& task) {
    return task.prefix.context_parallel == 1;
  });
  const auto first = static_cast<std::size_t>(rest - tasks.begin());
  const BestPlans seeds = all;
  RunTasks(tasks, 0, first, seeds, workers);
  for (std::size_t i = 0; i < first; ++i) all.Merge(tasks[i].kept);
  RunTasks(tasks, first, tasks.size(), all, workers);

  SearchFound found;
  for (const Task& task : tasks) {
    all.Merge(task.kept);
    found.summary.evaluated_count += task.evaluated;
    for (std::size_t i = 0; i < tallies.size(); ++i) tallies[i].count += task.tallies[i].count;
  }
  found.best = all.best();
  if (found.best.empty()) found.nearest = all.nearest();
  found.summary.space_count = space.Count();
  Summarise(tallies, shared, found.summary);
  if (found.summary.stop_cause != StopCause::kFinished) {
    found.summary.least_time = workers.front().LeastTimeLeft(tasks);
  }
  found.summary.seconds = std::chrono::duration_cast<Seconds>(Clock::now() - start);
  return found;
}

}  // namespace meshwright
