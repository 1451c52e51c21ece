#include "server/tuner/strategies/exhaustive.h"

#include <algorithm>
#include <chrono>
#include <tuple>

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kStopEvery = 64;  // groups of plans between two looks at the clock

bool IsBetter(const RecomputeChoice& a, const RecomputeChoice& b) {
  return std::tie(a.estimate.step_time, a.plan) < std::tie(b.estimate.step_time, b.plan);
}

class Search {
 public:
  Search(const SearchSpace& space, AnalyticModel& model, const SearchOptions& options)
      : space_(space), model_(model), options_(options), start_(Clock::now()) {
    for (const PruneRule& rule : PruneRules()) {
      const bool is_off = std::find(options.disabled_rules.begin(), options.disabled_rules.end(),
                                    rule.name) != options.disabled_rules.end();
      rules_.push_back({.rule = &rule, .is_on = !is_off});
    }
    found_.summary.space_count = space.Count();
  }

  SearchFound Run() {
    PlanWalk walk(space_);
    while (walk.Next()) {
      if (Cut(walk)) {
        walk.Skip();
        continue;
      }
      if (walk.depth() < static_cast<int>(Dimension::kZeroStage) + 1) continue;
      walk.Skip();
      TryGroup(walk.plan());
      if (ShouldStop()) break;
    }
    Finish();
    return std::move(found_);
  }

 private:
  struct Tally {
    const PruneRule* rule = nullptr;
    bool is_on = true;
    std::int64_t count = 0;
    Clock::duration time = {};
  };

  Tally& TallyOf(std::string_view name) {
    return *std::find_if(rules_.begin(), rules_.end(),
                         [&](const Tally& t) { return t.rule->name == name; });
  }

  bool Cut(const PlanWalk& walk) {
    Clock::time_point before = Clock::now();
    for (Tally& tally : rules_) {
      if (!tally.is_on || tally.rule->check == nullptr) continue;
      const auto rejection = tally.rule->check(model_.problem(), walk.plan(), walk.depth());
      if (rejection.has_value()) {
        const std::int64_t below = space_.CountBelow(walk.plan(), walk.depth());
        tally.count += below;
        considered_ += below;
      }
      const Clock::time_point after = Clock::now();
      tally.time += after - before;
      before = after;
      if (rejection.has_value()) return true;
    }
    return false;
  }

  // All recomputation choices of one plan.
  void TryGroup(const ParallelPlan& plan) {
    Tally& memory = TallyOf(kMemoryRule);
    Tally& dominance = TallyOf(kDominanceRule);
    const Clock::time_point before = Clock::now();
    NarrowedRecompute narrowed = NarrowRecompute(
        model_, space_, plan, {.by_memory = memory.is_on, .by_dominance = dominance.is_on});
    memory.time += Clock::now() - before;
    memory.count += narrowed.pruned_by_memory;
    dominance.count += narrowed.pruned_by_dominance;
    considered_ += space_.CountBelow(plan, static_cast<int>(Dimension::kRecompute));
    found_.summary.evaluated_count += narrowed.evaluated;
    for (RecomputeChoice& choice : narrowed.kept) Offer(std::move(choice));
    if (!found_.best.empty() || !narrowed.least_memory.has_value()) return;
    OversizedPlan& nearest = *narrowed.least_memory;
    const auto needs = [](const OversizedPlan& p) { return std::tie(p.reserved_memory, p.plan); };
    if (!found_.nearest.has_value() || needs(nearest) < needs(*found_.nearest)) {
      found_.nearest = std::move(nearest);
    }
  }

  void Offer(RecomputeChoice choice) {
    std::vector<RecomputeChoice>& best = found_.best;
    if (best.size() >= options_.plan_count && !IsBetter(choice, best.back())) return;
    const auto at = std::upper_bound(best.begin(), best.end(), choice, IsBetter);
    best.insert(at, std::move(choice));
    if (best.size() > options_.plan_count) best.pop_back();
  }

  bool ShouldStop() {
    if (options_.first_fit_is_enough && !found_.best.empty()) return stopped_ = true;
    if (++groups_ % kStopEvery != 0) return false;
    if (options_.on_progress) {
      Progress progress = {.phase = "searching",
                           .space_count = found_.summary.space_count,
                           .considered_count = considered_,
                           .evaluated_count = found_.summary.evaluated_count};
      if (!found_.best.empty()) progress.best_step_time = found_.best.front().estimate.step_time;
      options_.on_progress(progress);
    }
    if (!options_.stop) return false;
    const std::optional<StopCause> cause = options_.stop();
    if (!cause.has_value()) return false;
    found_.summary.stop_cause = *cause;
    return stopped_ = true;
  }

  void Finish() {
    SearchSummary& summary = found_.summary;
    summary.complete = !stopped_;
    for (const Tally& tally : rules_) {
      const std::string name(tally.rule->name);
      summary.pruned_count_by_rule.emplace_back(name, tally.count);
      summary.time_by_rule.emplace_back(name, std::chrono::duration_cast<Seconds>(tally.time));
    }
    summary.seconds = std::chrono::duration_cast<Seconds>(Clock::now() - start_);
  }

  const SearchSpace& space_;
  AnalyticModel& model_;
  const SearchOptions& options_;
  Clock::time_point start_;
  std::vector<Tally> rules_;
  SearchFound found_;
  std::int64_t considered_ = 0;
  std::int64_t groups_ = 0;
  bool stopped_ = false;
};

}  // namespace

SearchFound SearchExhaustively(const SearchSpace& space, AnalyticModel& model,
                               const SearchOptions& options) {
  return Search(space, model, options).Run();
}

}  // namespace meshwright
