#include "server/tuner/search/exhaustive.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <system_error>
#include <thread>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "estimator/problem/estimator_problem.h"
#include "pruner/pruner.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/recompute.h"
#include "search_space/base/units.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/search/best_plans.h"
#include "server/tuner/search/least_time.h"
#include "server/tuner/search/space_walker.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kStopEvery = 8;  // nodes between two checks of the clock

// The number of dimensions that the tasks fix. A worker keeps its cost model from task to task, and
// PlanBounds::LeastTimeIfPriced cuts by what that model has priced before. The counts are the same
// for any number of workers only because no two tasks share priced layers: tasks differ in tensor
// or context parallelism, and both are in the key of priced layers (LayerSharding).
constexpr int kTaskDepth = static_cast<int>(Dimension::kContextParallel) + 1;
static_assert(kTaskDepth == 2 && Dimension::kTensorParallel < Dimension::kContextParallel,
              "tasks must fix dimensions of LayerSharding only, or they share priced layers");

constexpr unsigned kMaxWorkers = 16;

// State that all workers share.
struct Shared {
  const SearchSpace& space;
  const SearchOptions& options;
  const std::int64_t space_count = space.Count();
  std::atomic<std::int64_t> considered = 0;
  std::atomic<std::int64_t> evaluated = 0;
  std::atomic<double> least_seconds = std::numeric_limits<double>::infinity();  // for progress only
  std::atomic<bool> stopped = false;
  std::atomic<StopCause> cause = StopCause::kFinished;
};

Seconds Now() { return std::chrono::duration_cast<Seconds>(Clock::now().time_since_epoch()); }

KeepOptions KeepOf(const SearchOptions& options) {
  return {.plan_count = options.plan_count,
          .are_alike = options.are_alike,
          .close_ratio = options.close_ratio};
}

Pruning PruningOf(const SearchOptions& options) {
  return Pruning(options.disabled_rules,
                 options.times_rules ? std::function<Seconds()>(Now) : nullptr);
}

void Lower(std::atomic<double>& least, double value) {
  double seen = least;
  while (value < seen && !least.compare_exchange_weak(seen, value)) {
  }
}

// The part of the space below one prefix.
struct Task {
  ParallelPlan prefix = {};
  bool is_done = false;
  BestPlans kept;
  Pruning pruning;
  std::int64_t evaluated = 0;
};

// Judges the plans of one walk by the built-in model, which has already priced them.
class BuiltInJudge final : public PlanJudge {
 public:
  // Keeps the best in `kept`.
  BuiltInJudge(Shared& shared, BestPlans& kept, bool reports)
      : shared_(shared), kept_(kept), reports_(reports) {}

  [[nodiscard]] JudgeView View() const override {
    const std::optional<OversizedPlan>& nearest = kept_.nearest();
    // A search for any fit has no use for the nearest plan, and so cuts where nothing can fit.
    const bool seeks_nearest = kept_.best().empty() && !shared_.options.first_fit_is_enough;
    return {.slowest_useful = kept_.SlowestUseful(),
            .seeks_nearest = seeks_nearest,
            .least_missed =
                nearest.has_value() ? std::optional(nearest->reserved_memory) : std::nullopt};
  }

  void Take(const NarrowedRecompute& found, bool /*is_by_hand*/) override {
    evaluated_ += found.evaluated;
    shared_.evaluated += found.evaluated;
    for (const RecomputeChoice& choice : found.kept) {
      kept_.Offer(choice);
      Lower(shared_.least_seconds, choice.estimate.step_time.count());
    }
    if (kept_.best().empty() && found.least_memory.has_value()) {
      kept_.OfferNearest(*found.least_memory);
    }
  }

  bool GoesOn(int depth, std::int64_t decided_count) override {
    if (decided_count > 0) shared_.considered += decided_count;
    if (depth >= kMicroBatchDepth) CheckLimits();
    return !shared_.stopped;
  }

  [[nodiscard]] std::int64_t evaluated() const { return evaluated_; }

 private:
  void CheckLimits() {
    const SearchOptions& options = shared_.options;
    if (options.first_fit_is_enough && !kept_.best().empty()) shared_.stopped = true;
    if (++nodes_ % kStopEvery != 0) return;
    if (reports_ && options.on_progress) {
      Progress progress = {.phase = "searching",
                           .space_count = shared_.space_count,
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
  BestPlans& kept_;
  const bool reports_;
  std::int64_t evaluated_ = 0;
  std::int64_t nodes_ = 0;
};

// A thread's model and its walks.
class Worker {
 public:
  Worker(Shared& shared, const EstimatorProblem& problem, const Calibration& calibration,
         bool reports)
      : shared_(shared),
        model_(problem, calibration),
        walker_(shared.space, model_),
        reports_(reports) {}
  Worker(const Worker&) = delete;  // the walker refers to the model
  Worker& operator=(const Worker&) = delete;

  // Walks a task. The plans in `known` were found before and bound which others are considered.
  void Run(Task& task, const BestPlans& known) {
    task.kept.MergeBest(known);
    BuiltInJudge judge(shared_, task.kept, reports_);
    task.is_done = walker_.Walk(task.prefix, kTaskDepth, {}, task.pruning, judge);
    task.evaluated = judge.evaluated();
  }

  // Returns a lower bound of the step times of the plans that interrupted tasks left unvisited.
  std::optional<Seconds> LeastTimeLeft(const std::vector<Task>& tasks) {
    std::optional<Seconds> least;
    for (const Task& task : tasks) {
      if (task.is_done) continue;
      const std::optional<Seconds> own = LeastTimeOf(shared_.space, task.prefix, kTaskDepth,
                                                     shared_.options.disabled_rules, model_);
      if (own.has_value()) least = std::min(least.value_or(*own), *own);
    }
    return least;
  }

  // Returns the best plans of a coarse grid over the whole space, chosen by the closed form and
  // then simulated, or the plan of the grid that comes nearest to fitting.
  BestPlans Seeds() {
    BestPlans chosen({.plan_count = kSeedCount});
    Pruning pruning(shared_.options.disabled_rules);  // not counted: the walks of the tasks count
    BuiltInJudge judge(shared_, chosen, reports_);
    walker_.Walk(shared_.space.Root(), 0,
                 {.grid = WalkGrid::kByHand, .pricing = Pricing::kClosedForm}, pruning, judge);
    BestPlans plans(KeepOf(shared_.options));
    for (const RecomputeChoice& seed : chosen.best()) {
      plans.Offer({.plan = seed.plan, .estimate = model_.Quick(seed.plan)});
    }
    if (plans.best().empty() && chosen.nearest().has_value()) plans.OfferNearest(*chosen.nearest());
    return plans;
  }

 private:
  Shared& shared_;
  AnalyticModel model_;
  SpaceWalker walker_;
  const bool reports_;
};

// Lets the workers take the tasks [begin, end) in turn. The caller's thread is one of them.
void RunTasks(std::vector<Task>& tasks, std::size_t begin, std::size_t end, const BestPlans& known,
              std::deque<Worker>& workers) {
  std::atomic<std::size_t> next = begin;
  const auto work = [&](Worker& worker) {
    for (std::size_t i = next++; i < end; i = next++) worker.Run(tasks[i], known);
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(workers.size(), end - begin); ++i) {
    try {
      threads.emplace_back(work, std::ref(workers[i]));
    } catch (const std::system_error&) {
      break;  // no more threads are available; the existing ones do the work
    }
  }
  work(workers.front());
}

std::size_t WorkerCount(const SearchOptions& options) {
  if (options.first_fit_is_enough) return 1;
  if (options.worker_count > 0) return static_cast<std::size_t>(options.worker_count);
  return std::clamp(std::thread::hardware_concurrency(), 1U, kMaxWorkers);
}

void Summarise(const Pruning& pruning, const Shared& shared, SearchSummary& summary) {
  summary.space_count = shared.space_count;
  summary.complete = !shared.stopped;
  summary.stop_cause = shared.cause;
  summary.pruned_count_by_rule = pruning.CountsByRule();
}

// Returns the plans to start with. They have a cost model of their own, because what a worker has
// priced before decides which bounds it has, and which tasks a worker takes depends on chance.
BestPlans SeedsOf(const SearchSpace& space, const EstimatorProblem& problem,
                  const Calibration& calibration, const SearchOptions& options) {
  if (options.first_fit_is_enough) return BestPlans(KeepOf(options));
  Shared shared = {.space = space, .options = options};
  return Worker(shared, problem, calibration, false).Seeds();
}

// Returns the parts of the space that no rule prunes as a whole.
std::vector<Task> TasksOf(const EstimatorProblem& problem, Shared& shared, Pruning& pruning) {
  const PruneContext context = {.problem = problem, .space = shared.space};
  std::vector<Task> tasks;
  for (PlanWalk walk(shared.space); walk.Next();) {
    const auto cut = pruning.CutPrefix(context, walk.plan(), walk.depth());
    if (cut.has_value()) {
      shared.considered += *cut;
      walk.Skip();
    } else if (walk.depth() == kTaskDepth) {
      tasks.push_back({.prefix = walk.plan(),
                       .kept = BestPlans(KeepOf(shared.options)),
                       .pruning = PruningOf(shared.options)});
      walk.Skip();
    }
  }
  return tasks;
}

}  // namespace

SearchFound SearchExhaustively(const SearchSpace& space, const EstimatorProblem& problem,
                               const Calibration& calibration, const SearchOptions& options) {
  const Clock::time_point start = Clock::now();
  Shared shared = {.space = space, .options = options};
  Pruning pruning = PruningOf(options);
  std::vector<Task> tasks = TasksOf(problem, shared, pruning);
  std::deque<Worker> workers;  // a deque, so that workers never move
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
    pruning.Merge(task.pruning);
  }
  found.best = all.best();
  found.close = all.CloseToBest();
  found.close_were_cut = all.close_were_cut();
  if (found.best.empty()) found.nearest = all.nearest();
  found.rules = pruning.tallies();
  Summarise(pruning, shared, found.summary);
  if (found.summary.stop_cause != StopCause::kFinished) {
    found.summary.least_time = workers.front().LeastTimeLeft(tasks);
  }
  found.summary.seconds = std::chrono::duration_cast<Seconds>(Clock::now() - start);
  return found;
}

}  // namespace meshwright
