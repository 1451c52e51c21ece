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
#include "pruner/pruner.h"
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
#include "server/tuner/search/search_plan.h"
#include "server/tuner/search/space_walker.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

// Plans per question: a batch of the model, then a check of the limits.
constexpr std::size_t kChunk = 8192;
constexpr std::size_t kFavourites = 64;
constexpr std::int64_t kCheckEvery = 64;  // nodes between two checks of the clock
constexpr std::chrono::milliseconds kWatchEvery(20);
constexpr double kRounding = 1e-9;  // relative; a bound that is exceeded by less is not broken

// Judges plans by a vendor's model, which it asks in large batches.
class ModelSearch final : public PlanJudge {
 public:
  ModelSearch(const Problem& problem, const Calibration& calibration, PlanModel& model,
              const SearchOptions& options)
      : problem_(problem),
        space_(SpaceOf(problem)),
        built_in_(ToEstimatorProblem(problem), calibration),
        pruning_(options.disabled_rules),
        model_(model),
        options_(options),
        kept_({.plan_count = options.plan_count}) {}

  ModelFound Run(int limit) {
    const Clock::time_point start = Clock::now();
    limit_ = limit;
    {
      const std::jthread watch([this](const std::stop_token& done) { Watch(done); });
      AskFavourites();
      WalkSpace();
      Flush();
    }
    SearchSummary& summary = result_.found.summary;
    summary.space_count = space_count_;
    summary.evaluated_count = evaluated_;
    summary.pruned_count_by_rule = pruning_.CountsByRule();
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

  // Ends a question that takes too long when the search must end.
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

  void AskFavourites() {
    SearchOptions options = options_;
    options.plan_count = kFavourites;
    options.on_progress = {};
    const SearchFound found =
        SearchExhaustively(space_, ToEstimatorProblem(problem_), built_in_.calibration(), options);
    if (found.nearest.has_value()) kept_.OfferNearest(*found.nearest);
    for (const RecomputeChoice& choice : found.best) Add(choice.plan);
    Flush();
  }

  // Asks first about plans as set by hand, so that a search that is cut short has seen all of them.
  void WalkSpace() {
    SpaceWalker walker(space_, built_in_);
    // Not counted: the walk over the whole space counts.
    Pruning uncounted(options_.disabled_rules);
    const bool is_through = walker.Walk(
        space_.Root(), 0, {.grid = WalkGrid::kByHandWithoutOffload, .pricing = Pricing::kJudge},
        uncounted, *this);
    if (!is_through) return;
    has_asked_by_hand_ = true;
    walker.Walk(space_.Root(), 0, {.pricing = Pricing::kJudge}, pruning_, *this);
  }

  // Gives no bounds: the vendor's times do not tell what the built-in model's bounds would prune.
  [[nodiscard]] JudgeView View() const override { return {}; }

  void Take(const NarrowedRecompute& found, bool is_by_hand) override {
    const bool was_asked = is_by_hand && has_asked_by_hand_;
    for (const RecomputeChoice& choice : found.kept) {
      if (!was_asked) Add(choice.plan);
    }
    if (found.least_memory.has_value()) kept_.OfferNearest(*found.least_memory);
  }

  bool GoesOn(int /*depth*/, std::int64_t /*decided_count*/) override {
    if (++nodes_ % kCheckEvery == 0) CheckLimits();
    return !IsOver();
  }

  void Add(const ParallelPlan& plan) {
    if (IsOver()) return;
    if (evaluated_ + static_cast<std::int64_t>(plans_.size()) >= limit_) {
      cause_ = StopCause::kEvaluationLimit;
      return;
    }
    plans_.push_back(plan);
    if (plans_.size() >= kChunk) Flush();
  }

  // The waiting plans, in the form in which the model is asked about them.
  struct ModelBatch {
    std::vector<ParallelPlan> plans = {};
    std::vector<Seconds> bounds = {};  // one per plan; empty: none are known
  };

  ModelBatch AskBounds() {
    ModelBatch batch;
    batch.plans.reserve(plans_.size());
    for (const ParallelPlan& plan : plans_) batch.plans.push_back(WithUnevenSplit(plan, problem_));
    if (!pruning_.IsOn(kBoundRule) || result_.broken_bound.has_value()) return batch;
    auto bounds = model_.LowerBounds(batch.plans, stop_questions_.get_token());
    // On failure there are no bounds; the error shows again when the plans are estimated.
    if (bounds.ok() && bounds->size() == batch.plans.size()) batch.bounds = *std::move(bounds);
    return batch;
  }

  // Returns the plans that can still be among the best, and drops the others from the waiting ones
  // too.
  ModelBatch WithoutSlow(ModelBatch batch) {
    const std::optional<Seconds> slowest = kept_.SlowestUseful();
    if (!slowest.has_value() || batch.bounds.empty()) return batch;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < batch.plans.size(); ++i) {
      // An equally slow plan is kept, because it may come first in the canonical order.
      if (batch.bounds[i] > *slowest) continue;
      if (kept != i) {
        plans_[kept] = std::move(plans_[i]);
        batch.plans[kept] = std::move(batch.plans[i]);
        batch.bounds[kept] = batch.bounds[i];
      }
      ++kept;
    }
    const auto dropped = static_cast<std::int64_t>(batch.plans.size() - kept);
    pruning_.Count(kBoundRule, dropped);  // each plan waits once, so it is counted once
    result_.left_out_by_bounds += dropped;
    plans_.resize(kept);
    batch.plans.resize(kept);
    batch.bounds.resize(kept);
    return batch;
  }

  void CheckBounds(const ModelBatch& batch, const std::vector<PlanFigures>& figures) {
    for (std::size_t i = 0; i < batch.bounds.size() && !result_.broken_bound.has_value(); ++i) {
      if (figures[i].verdict != PlanVerdict::kOk) continue;
      if (figures[i].step_time >= batch.bounds[i] * (1 - kRounding)) continue;
      result_.broken_bound = {
          .plan = plans_[i], .bound = batch.bounds[i], .step_time = figures[i].step_time};
    }
  }

  void Flush() {
    if (plans_.empty() || !result_.failure.ok()) return;
    const ModelBatch batch = WithoutSlow(AskBounds());
    const auto figures = model_.Estimate(batch.plans, {.cancel = stop_questions_.get_token()});
    if (!figures.ok()) {
      if (absl::IsCancelled(figures.status())) {
        cause_ = (options_.stop ? options_.stop() : std::nullopt).value_or(StopCause::kCancelled);
      } else {
        result_.failure = figures.status();
      }
      plans_.clear();
      return;
    }
    CheckBounds(batch, *figures);
    for (std::size_t i = 0; i < plans_.size(); ++i) Judge(plans_[i], (*figures)[i]);
    evaluated_ += static_cast<std::int64_t>(plans_.size());
    plans_.clear();
    CheckLimits();
  }

  void Judge(const ParallelPlan& plan, const PlanFigures& figures) {
    if (figures.verdict == PlanVerdict::kOk) {
      kept_.Offer({.plan = plan, .estimate = {.step_time = figures.step_time, .fits = true}});
      return;
    }
    Unanswered& unanswered = result_.unanswered[figures.verdict];
    if (unanswered.count++ == 0) unanswered.first_reason = figures.reason;
  }

  void CheckLimits() {
    if (options_.stop && !cause_.has_value()) cause_ = options_.stop();
    if (!options_.on_progress) return;
    Progress progress = {.phase = "asking " + model_.version().name,
                         .space_count = space_count_,
                         .considered_count = evaluated_,
                         .evaluated_count = evaluated_};
    for (const RuleTally& tally : pruning_.tallies()) progress.considered_count += tally.count;
    if (!kept_.best().empty()) progress.best_step_time = kept_.best().front().estimate.step_time;
    options_.on_progress(progress);
  }

  const Problem& problem_;
  const SearchSpace space_;
  const std::int64_t space_count_ = space_.Count();
  AnalyticModel built_in_;
  Pruning pruning_;
  PlanModel& model_;
  const SearchOptions& options_;
  BestPlans kept_;
  std::vector<ParallelPlan> plans_;  // waiting to be asked about
  std::int64_t evaluated_ = 0;
  std::int64_t nodes_ = 0;
  std::int64_t limit_ = 0;
  bool has_asked_by_hand_ = false;  // has asked about all plans of the first walk
  std::optional<StopCause> cause_;
  std::stop_source stop_questions_;
  ModelFound result_;
};

}  // namespace

ParallelPlan WithUnevenSplit(const ParallelPlan& plan, const Problem& problem) {
  ParallelPlan stated = WithStatedSplit(plan, problem);
  const std::vector<int>& layers = stated.layers_per_stage;
  const bool is_even = std::ranges::all_of(layers, [&](int n) { return n == layers.front(); });
  if (is_even) stated.layers_per_stage.clear();
  return stated;
}

ModelFound SearchByModel(const Problem& problem, const Calibration& calibration, PlanModel& model,
                         const SearchOptions& options, int limit) {
  return ModelSearch(problem, calibration, model, options).Run(limit);
}

}  // namespace meshwright
