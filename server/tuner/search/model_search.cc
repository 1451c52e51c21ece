#include "server/tuner/search/model_search.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "estimator/model/plan_bounds.h"
#include "pruner/pruner.h"
#include "pruner/rules/history.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/recompute.h"
#include "search_space/base/units.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/search/best_plans.h"
#include "server/tuner/search/infeasible.h"
#include "server/tuner/search/search_plan.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kChunk = 8192;  // plans a question: the model's batches, and a look around
constexpr std::size_t kFavourites = 64;
constexpr int kGroupDepth = static_cast<int>(Dimension::kOptimizerOffload);
constexpr int kShardingDepth = static_cast<int>(Dimension::kRankOrder) + 1;
constexpr std::int64_t kLookEvery = 64;  // nodes between two looks at the clock
constexpr std::chrono::milliseconds kWatchEvery(20);
constexpr double kRounding = 1e-9;  // of a bound: no lie
// The coarse grid, as that of the exhaustive search.
constexpr int kCoarseMicroBatch = 4;
constexpr int kCoarseContext = 8;

class ModelSearch {
 public:
  ModelSearch(const Problem& problem, const Calibration& calibration, PlanModel& model,
              const SearchOptions& options)
      : problem_(problem),
        space_(SpaceOf(problem)),
        built_in_(ViewOf(problem), calibration),
        failed_(calibration, ViewOf(problem)),
        model_(model),
        options_(options),
        kept_(options.plan_count) {
    for (const PruneRule& rule : PruneRules()) tallies_.emplace_back(&rule, 0);
  }

  ModelFound Run(int limit) {
    const Clock::time_point start = Clock::now();
    limit_ = limit;
    {
      const std::jthread watch([this](const std::stop_token& done) { Watch(done); });
      AskFavourites();
      Walk(/*coarsely=*/true);
      Walk(/*coarsely=*/false);
      Flush();
    }
    SearchSummary& summary = result_.found.summary;
    summary.space_count = space_.Count();
    summary.evaluated_count = evaluated_;
    for (const auto& [rule, count] : tallies_) {
      summary.pruned_count_by_rule.emplace_back(std::string(rule->name), count);
    }
    summary.stop_cause = cause_.value_or(StopCause::kFinished);
    const bool was_misled = result_.broken_bound.has_value() && result_.left_out_by_bounds > 0;
    summary.complete = !cause_.has_value() && result_.failure.ok() && !was_misled;
    summary.seconds = std::chrono::duration_cast<Seconds>(Clock::now() - start);
    result_.found.best = kept_.best();
    if (result_.found.best.empty()) result_.found.nearest = kept_.nearest();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool IsOver() const { return cause_.has_value() || !result_.failure.ok(); }

  // Ends a question that takes long when the search must end.
  void Watch(const std::stop_token& done) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any wake;
    while (!wake.wait_for(lock, done, kWatchEvery, [&] { return done.stop_requested(); })) {
      if (!options_.stop || !options_.stop().has_value()) continue;
      stop_questions_.request_stop();
      return;
    }
  }

  [[nodiscard]] bool IsOn(std::string_view rule) const {
    return std::ranges::find(options_.disabled_rules, rule) == options_.disabled_rules.end();
  }

  void Count(std::string_view rule, std::int64_t count) {
    if (!counts_) return;  // the walk over all comes
    for (auto& [known, sum] : tallies_) {
      if (known->name == rule) sum += count;
    }
  }

  void AskFavourites() {
    SearchOptions options = options_;
    options.plan_count = kFavourites;
    options.on_progress = {};
    const SearchFound found =
        SearchExhaustively(space_, ViewOf(problem_), built_in_.calibration(), options);
    if (found.nearest.has_value()) kept_.OfferNearest(*found.nearest);
    for (const RecomputeChoice& choice : found.best) Add(choice.plan);
    Flush();
  }

  // What plans by hand have comes first: a search that is cut has then seen all of that.
  void Walk(bool coarsely) {
    counts_ = !coarsely;
    for (PlanWalk walk(space_); !IsOver() && walk.Next();) {
      if (++nodes_ % kLookEvery == 0) LookAround();
      const bool is_coarse = IsCoarse(walk);
      if ((coarsely && !is_coarse) || IsCut(walk.plan(), walk.depth())) {
        walk.Skip();
      } else if (walk.depth() == kGroupDepth) {
        walk.Skip();
        if (coarsely) {
          TryWithoutOffload(walk.plan());
        } else {
          TryGroup(walk.plan(), is_coarse);
        }
      }
    }
  }

  // Whether what is set so far is what plans by hand have.
  [[nodiscard]] bool IsCoarse(const PlanWalk& walk) const {
    const ParallelPlan& plan = walk.plan();
    const bool has_sequence = walk.depth() > static_cast<int>(Dimension::kSequenceParallel);
    return plan.context_parallel <= kCoarseContext &&
           plan.context_parallel_kind == space_.options().context_parallel_kinds.front() &&
           plan.expert_tensor_parallel == 1 && plan.micro_batch_size <= kCoarseMicroBatch &&
           plan.layers_per_stage.empty() && plan.zero_group_size == 0 &&
           plan.whole_weights_ratio == 0 &&
           (!has_sequence || plan.sequence_parallel == (plan.tensor_parallel > 1));
  }

  bool IsCut(const ParallelPlan& plan, int depth) {
    for (auto& [rule, sum] : tallies_) {
      if (rule->check == nullptr || !IsOn(rule->name)) continue;
      if (!rule->check({.problem = built_in_.problem(), .space = space_}, plan, depth).has_value())
        continue;
      if (counts_) sum += space_.CountBelow(plan, depth);
      return true;
    }
    return depth == kShardingDepth && IsOn(kMemoryRule) && IsTooLarge(plan);
  }

  bool IsTooLarge(const ParallelPlan& plan) {
    const Bytes least =
        PlanBounds(built_in_).LeastMemoryBelow(plan, space_.MostOffloadedBelow(plan));
    if (least <= problem_.cluster.pools.front().memory_capacity) return false;
    Count(kMemoryRule, space_.CountBelow(plan, kShardingDepth));
    return true;
  }

  void TryWithoutOffload(ParallelPlan plan) {
    for (const Dimension offload : {Dimension::kOptimizerOffload, Dimension::kActivationOffload}) {
      const std::vector<int> values = space_.Values(offload, plan);
      if (std::ranges::find(values, 0) == values.end()) return;
      space_.Set(offload, 0, plan);
    }
    if (!IsCut(plan, kGroupDepth + 1)) TryRecomputation(plan);
  }

  // All shares of offload: more of it is of no use where the plan fits without recomputation.
  void TryGroup(const ParallelPlan& group, bool is_known) {
    ParallelPlan plan = group;
    bool fits_plain = false;
    for (const int optimizer : space_.Values(Dimension::kOptimizerOffload, group)) {
      space_.Set(Dimension::kOptimizerOffload, optimizer, plan);
      if (IsCut(plan, kGroupDepth + 1)) continue;
      for (const int activations : space_.Values(Dimension::kActivationOffload, plan)) {
        space_.Set(Dimension::kActivationOffload, activations, plan);
        if (fits_plain && IsOn(kDominanceRule)) {
          Count(kDominanceRule, space_.CountBelow(plan, kGroupDepth + 2));
        } else {
          asks_ = !is_known || optimizer != 0 || activations != 0;
          fits_plain = TryRecomputation(plan) || fits_plain;
          asks_ = true;
        }
      }
    }
  }

  // Whether the plan fits without recomputation.
  bool TryRecomputation(const ParallelPlan& plan) {
    const bool has_failed = failed_.HaveOneLike(plan);
    const NarrowedRecompute narrowed =
        NarrowRecompute(built_in_, space_, plan,
                        {.by_memory = true,
                         .by_dominance = IsOn(kDominanceRule) && !has_failed,
                         .by_closed_form = true,
                         .failed = has_failed ? &failed_ : nullptr});
    Count(kMemoryRule, narrowed.pruned_by_memory);
    Count(kDominanceRule, narrowed.pruned_by_dominance);
    Count(kHistoryRule, narrowed.failed);
    bool fits_plain = false;
    for (const RecomputeChoice& choice : narrowed.kept) {
      if (!choice.estimate.fits) continue;
      fits_plain = fits_plain || choice.plan.recompute.granularity == RecomputeGranularity::kNone;
      Add(choice.plan);
    }
    if (narrowed.least_memory.has_value()) kept_.OfferNearest(*narrowed.least_memory);
    return fits_plain;
  }

  void Add(const ParallelPlan& plan) {
    if (IsOver() || !asks_) return;
    if (evaluated_ + static_cast<std::int64_t>(plans_.size()) >= limit_) {
      cause_ = StopCause::kEvaluationLimit;
      return;
    }
    plans_.push_back(plan);
    if (plans_.size() >= kChunk) Flush();
  }

  // The plans that wait, as the model is asked about them.
  struct Asked {
    std::vector<ParallelPlan> plans = {};
    std::vector<Seconds> bounds = {};  // of each; empty: none are known
  };

  Asked AskBounds() {
    Asked asked;
    asked.plans.reserve(plans_.size());
    for (const ParallelPlan& plan : plans_) asked.plans.push_back(AskedForm(plan, problem_));
    if (!IsOn(kBoundRule) || result_.broken_bound.has_value()) return asked;
    auto bounds = model_.LowerBounds(asked.plans, stop_questions_.get_token());
    // None; what fails, fails again.
    if (bounds.ok() && bounds->size() == asked.plans.size()) asked.bounds = *std::move(bounds);
    return asked;
  }

  // Leaves those that can be among the best, of what waits too.
  Asked WithoutSlow(Asked asked) {
    const std::optional<Seconds> slowest = kept_.SlowestUseful();
    if (!slowest.has_value() || asked.bounds.empty()) return asked;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < asked.plans.size(); ++i) {
      // One as slow may come first in the order of plans.
      if (asked.bounds[i] > *slowest) continue;
      if (kept != i) {
        plans_[kept] = std::move(plans_[i]);
        asked.plans[kept] = std::move(asked.plans[i]);
        asked.bounds[kept] = asked.bounds[i];
      }
      ++kept;
    }
    const auto dropped = static_cast<std::int64_t>(asked.plans.size() - kept);
    for (auto& [rule, sum] : tallies_) {  // each plan waits once, so that each counts
      if (rule->name == kBoundRule) sum += dropped;
    }
    result_.left_out_by_bounds += dropped;
    plans_.resize(kept);
    asked.plans.resize(kept);
    asked.bounds.resize(kept);
    return asked;
  }

  void CheckBounds(const Asked& asked, const std::vector<PlanFigures>& figures) {
    for (std::size_t i = 0; i < asked.bounds.size() && !result_.broken_bound.has_value(); ++i) {
      if (figures[i].verdict != PlanVerdict::kOk) continue;
      if (figures[i].step_time >= asked.bounds[i] * (1 - kRounding)) continue;
      result_.broken_bound = {
          .plan = plans_[i], .bound = asked.bounds[i], .step_time = figures[i].step_time};
    }
  }

  void Flush() {
    if (plans_.empty() || !result_.failure.ok()) return;
    const Asked asked = WithoutSlow(AskBounds());
    const auto figures = model_.Estimate(asked.plans, {.cancel = stop_questions_.get_token()});
    if (!figures.ok()) {
      if (absl::IsCancelled(figures.status())) {
        cause_ = (options_.stop ? options_.stop() : std::nullopt).value_or(StopCause::kCancelled);
      } else {
        result_.failure = figures.status();
      }
      plans_.clear();
      return;
    }
    CheckBounds(asked, *figures);
    for (std::size_t i = 0; i < plans_.size(); ++i) Judge(plans_[i], (*figures)[i]);
    evaluated_ += static_cast<std::int64_t>(plans_.size());
    plans_.clear();
    LookAround();
  }

  void Judge(const ParallelPlan& plan, const PlanFigures& figures) {
    if (figures.verdict == PlanVerdict::kOk) {
      kept_.Offer({.plan = plan, .estimate = {.step_time = figures.step_time, .fits = true}});
      return;
    }
    Unanswered& unanswered = result_.unanswered[figures.verdict];
    if (unanswered.count++ == 0) unanswered.first_reason = figures.reason;
  }

  void LookAround() {
    if (options_.stop && !cause_.has_value()) cause_ = options_.stop();
    if (!options_.on_progress) return;
    Progress progress = {.phase = "asking " + model_.version().name,
                         .space_count = space_count_,
                         .considered_count = evaluated_,
                         .evaluated_count = evaluated_};
    for (const auto& [rule, count] : tallies_) progress.considered_count += count;
    if (!kept_.best().empty()) progress.best_step_time = kept_.best().front().estimate.step_time;
    options_.on_progress(progress);
  }

  const Problem& problem_;
  const SearchSpace space_;
  const std::int64_t space_count_ = space_.Count();
  AnalyticModel built_in_;
  FailedPlans failed_;
  PlanModel& model_;
  const SearchOptions& options_;
  BestPlans kept_;
  std::vector<std::pair<const PruneRule*, std::int64_t>> tallies_;
  std::vector<ParallelPlan> plans_;  // that wait to be asked about
  std::int64_t evaluated_ = 0;
  std::int64_t nodes_ = 0;
  std::int64_t limit_ = 0;
  bool counts_ = true;  // what the rules cut
  bool asks_ = true;    // about what is left; else it was asked before
  std::optional<StopCause> cause_;
  std::stop_source stop_questions_;
  ModelFound result_;
};

}  // namespace

ParallelPlan AskedForm(const ParallelPlan& plan, const Problem& problem) {
  ParallelPlan asked = WithStatedSplit(plan, problem);
  const std::vector<int>& layers = asked.layers_per_stage;
  const bool is_even = std::ranges::all_of(layers, [&](int n) { return n == layers.front(); });
  if (is_even) asked.layers_per_stage.clear();
  return asked;
}

ModelFound SearchByModel(const Problem& problem, const Calibration& calibration, PlanModel& model,
                         const SearchOptions& options, int limit) {
  return ModelSearch(problem, calibration, model, options).Run(limit);
}

}  // namespace meshwright
