#include "server/tuner/answers/recommend.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/learning/calibration.h"
#include "estimator/learning/uncertainty.h"
#include "estimator/model/analytic_model.h"
#include "pruner/rules/recompute.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/kinds.h"
#include "server/tuner/choice/choice.h"
#include "server/tuner/choice/plainness.h"
#include "server/tuner/choice/verdict.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/best_plans.h"
#include "server/tuner/search/question_search.h"
#include "server/tuner/search/search_plan.h"
#include "server/tuner/search/strategies.h"

namespace meshwright {
namespace {

// Plans that differ by less are shown as equally fast.
constexpr double kShownSlower = 0.0005;
// Plans that fit with this probability are equally sure to fit.
constexpr double kSureToFit = 0.99;

double SlowerBy(const Estimate& estimate, const Estimate& other) {
  return estimate.step_time / other.step_time - 1;
}

bool IsSame(const RankedPlan& a, const RankedPlan& b) {
  return a.plan == b.plan && a.settings == b.settings;
}

// The plans among which one is chosen, with what the choice needs.
class Table {
 public:
  Table(const PreparedQuestion& question, std::vector<RankedPlan> candidates, KnownPlans known,
        SwitchedPlans& plans)
      : limits_(question.request.choice),
        sequence_length_(question.problem.workload.sequence_length),
        candidates_(std::move(candidates)),
        known_(std::move(known)) {
    for (const RankedPlan& ranked : candidates_) {
      uncertainties_.push_back(plans.UncertaintyOf(ranked));
    }
    std::vector<Alternative> alternatives;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      alternatives.push_back({candidates_[i].plan, candidates_[i].estimate, uncertainties_[i],
                              sequence_length_, !candidates_[i].settings.empty()});
    }
    choice_ = RankChoices(alternatives, limits_, known_);
  }

  [[nodiscard]] const RankedPlan& First() const { return candidates_[choice_.order.front()]; }

  // Returns the first plan of each kind in their order, at most `count`, with the number of plans
  // and the ranges of the fields that the line of each stands for. Leaves out the plan `hidden`,
  // unless it is the first.
  [[nodiscard]] std::vector<RankedPlan> Kinds(std::size_t count, const RankedPlan* hidden) const {
    std::vector<PlanKind> kinds;
    for (const std::size_t i : choice_.order) {
      const ParallelPlan& plan = candidates_[i].plan;
      const bool is_hidden = hidden != nullptr && IsSame(candidates_[i], *hidden);
      if (is_hidden && i != choice_.order.front()) continue;
      const auto known = std::ranges::find_if(kinds, [&](const PlanKind& kind) {
        return AreOneKind(candidates_[kind.first].plan, plan);
      });
      if (known != kinds.end()) {
        if (IsLike(known->first, i)) known->like.push_back(i);
      } else if (kinds.size() < count) {
        kinds.push_back({.first = i});
      }
    }
    return Lines(kinds);
  }

  // Returns true if the user's own plan is one that the choice is indifferent to.
  [[nodiscard]] bool IsOwnTied() const {
    if (!known_.own.has_value()) return false;
    const auto end = choice_.order.begin() + static_cast<std::ptrdiff_t>(choice_.tied_count);
    return std::any_of(choice_.order.begin(), end,
                       [&](std::size_t i) { return IsOwn(candidates_[i]); });
  }

  // Makes the user's own plan the first.
  void PutOwnFirst() {
    const auto own =
        std::ranges::find_if(choice_.order, [&](std::size_t i) { return IsOwn(candidates_[i]); });
    std::rotate(choice_.order.begin(), own, own + 1);
  }

  // Returns why the first plan should be launched, and what it risks.
  [[nodiscard]] std::vector<VerdictFact> LaunchFacts(const RankedPlan& optimum) const {
    std::vector<VerdictFact> facts = WhyFirst(optimum);
    std::vector<std::string> features = FeaturesOf(First().plan);
    if (!features.empty()) {
      facts.push_back({.code = VerdictCode::kPlanUnconfirmed, .features = std::move(features)});
    }
    return facts;
  }

  // Returns how much the plan that would be recommended may gain over the user's own, and why a
  // faster one is not recommended.
  [[nodiscard]] std::vector<VerdictFact> KeepFacts(const RankedPlan& optimum) const {
    const std::size_t own = choice_.order.front();
    const std::size_t best = choice_.reference;
    const Estimate& mine = candidates_[own].estimate;
    const double fits = mine.fit_probability;
    if (own == best) return {{.code = VerdictCode::kOwnRecommended, .fit_probability = fits}};
    const Estimate& other = candidates_[best].estimate;
    if (mine.step_time <= other.step_time) {
      return {{.code = VerdictCode::kOwnNotSlower, .fit_probability = fits}};
    }
    std::vector<VerdictFact> facts;
    if (optimum.plan != candidates_[best].plan) facts = WhyNotOptimum(optimum);
    facts.push_back({.code = VerdictCode::kOwnTied,
                     .slower_ratio = SlowerBy(mine, other),
                     .fit_probability = fits,
                     .faster_probability = FasterProbability(other.step_time, uncertainties_[best],
                                                             mine.step_time, uncertainties_[own])});
    return facts;
  }

 private:
  // The user's own plan runs with the framework's own settings.
  [[nodiscard]] bool IsOwn(const RankedPlan& ranked) const {
    return ranked.settings.empty() && ranked.plan == *known_.own;
  }

  [[nodiscard]] std::vector<std::string> FeaturesOf(const ParallelPlan& plan) const {
    const std::vector<std::string_view> features = UnmeasuredFeatures(plan, sequence_length_);
    return {features.begin(), features.end()};
  }

  [[nodiscard]] std::vector<VerdictFact> WhyFirst(const RankedPlan& optimum) const {
    const Estimate& own = First().estimate;
    const double fits = own.fit_probability;
    if (fits < limits_.min_fit_probability) {
      return {{.code = VerdictCode::kNoneSureToFit, .fit_probability = fits}};
    }
    if (IsSame(First(), optimum)) {
      return {{.code = VerdictCode::kModelOptimum, .fit_probability = fits}};
    }
    if (choice_.reference != choice_.cheapest) return YieldFacts(optimum);
    const bool is_tied = optimum.estimate.fit_probability >= limits_.min_fit_probability;
    std::vector<VerdictFact> facts;
    if (!is_tied) facts = WhyNotOptimum(optimum);
    facts.push_back({.code = is_tied ? VerdictCode::kTiedWithOptimum : VerdictCode::kSlower,
                     .slower_ratio = SlowerBy(own, optimum.estimate),
                     .fit_probability = fits});
    std::ranges::move(TieFacts(choice_.reason, static_cast<int>(choice_.tied_count)),
                      std::back_inserter(facts));
    return facts;
  }

  // Returns why a plan is first although a cheaper one is no less safe in memory.
  [[nodiscard]] std::vector<VerdictFact> YieldFacts(const RankedPlan& optimum) const {
    const RankedPlan& cheapest = candidates_[choice_.cheapest];
    std::vector<VerdictFact> facts;
    if (optimum.plan != cheapest.plan) facts = WhyNotOptimum(optimum);
    std::vector<std::string> features = FeaturesOf(cheapest.plan);
    const bool is_said = !facts.empty() && facts.back().features == features;
    if (!is_said) {
      facts.push_back({.code = VerdictCode::kSafestUnconfirmed, .features = std::move(features)});
    }
    facts.push_back({.code = VerdictCode::kSlower,
                     .slower_ratio = SlowerBy(First().estimate, optimum.estimate),
                     .fit_probability = First().estimate.fit_probability});
    std::ranges::move(TieFacts(choice_.reason, std::nullopt), std::back_inserter(facts));
    return facts;
  }

  // Returns why the model's fastest plan is not recommended; nothing if it is only tied.
  [[nodiscard]] std::vector<VerdictFact> WhyNotOptimum(const RankedPlan& optimum) const {
    const double fits = optimum.estimate.fit_probability;
    if (fits < limits_.min_fit_probability) {
      return {{.code = VerdictCode::kOptimumMayNotFit, .fit_probability = fits}};
    }
    std::vector<std::string> features = FeaturesOf(optimum.plan);
    if (features.empty()) return {};
    return {{.code = VerdictCode::kOptimumUnconfirmed, .features = std::move(features)}};
  }

  // Returns true if neither of two plans is known to be faster, both are sure to fit or neither,
  // and they use the same features that hardly any measured run has confirmed.
  [[nodiscard]] bool IsLike(std::size_t a, std::size_t b) const {
    const auto is_safe = [&](std::size_t i) {
      return candidates_[i].estimate.fit_probability >= limits_.min_fit_probability;
    };
    const double faster = FasterProbability(candidates_[a].estimate.step_time, uncertainties_[a],
                                            candidates_[b].estimate.step_time, uncertainties_[b]);
    return is_safe(a) == is_safe(b) && candidates_[a].settings == candidates_[b].settings &&
           FeaturesOf(candidates_[a].plan) == FeaturesOf(candidates_[b].plan) &&
           faster < limits_.tie_probability && 1 - faster < limits_.tie_probability;
  }

  [[nodiscard]] std::vector<RankedPlan> Lines(const std::vector<PlanKind>& kinds) const {
    std::vector<RankedPlan> lines;
    std::vector<Seconds> steps;
    std::vector<TimeUncertainty> uncertainties;
    for (const PlanKind& kind : kinds) {
      RankedPlan line = candidates_[kind.first];
      std::vector<const ParallelPlan*> like;
      for (const std::size_t i : kind.like) like.push_back(&candidates_[i].plan);
      line.like_count = static_cast<int>(like.size());
      line.like_ranges = RangesOf(line.plan, like);
      steps.push_back(line.estimate.step_time);
      uncertainties.push_back(uncertainties_[kind.first]);
      lines.push_back(std::move(line));
    }
    const std::vector<double> fastest = FastestProbabilities(steps, uncertainties);
    for (std::size_t i = 0; i < lines.size(); ++i) lines[i].fastest_probability = fastest[i];
    for (std::size_t i = 1; i < kinds.size(); ++i) lines[i].reason = WhyBelow(kinds, i);
    return lines;
  }

  // Says why a line stands below the first one that is slower; nothing if none above it is.
  [[nodiscard]] std::string WhyBelow(const std::vector<PlanKind>& kinds, std::size_t line) const {
    const RankedPlan& own = candidates_[kinds[line].first];
    for (std::size_t i = 0; i < line; ++i) {
      const RankedPlan& above = candidates_[kinds[i].first];
      if (SlowerBy(above.estimate, own.estimate) < kShownSlower) continue;
      return fmt::format("faster than {}, but {}", i + 1, Drawback(own, above));
    }
    return "";
  }

  // Says what makes a faster plan the second choice, in the order of the rules of the choice.
  [[nodiscard]] std::string Drawback(const RankedPlan& faster, const RankedPlan& other) const {
    const double fits = faster.estimate.fit_probability;
    if (fits < limits_.min_fit_probability && fits < other.estimate.fit_probability) {
      return "fits with only " + ProbabilityOf(fits);
    }
    const std::vector<std::string> features = FeaturesOf(faster.plan);
    if (features.size() > FeaturesOf(other.plan).size()) {
      return fmt::format("uses {}", fmt::join(features, " and "));
    }
    if (std::min(fits, kSureToFit) < std::min(other.estimate.fit_probability, kSureToFit)) {
      return "tied, and less sure to fit";
    }
    if (faster.estimate.provenance > other.estimate.provenance) {
      return "tied, and less well founded";
    }
    if (!faster.settings.empty() && other.settings.empty()) {
      return "tied, and needs other settings of the framework";
    }
    if (known_.own.has_value() &&
        DistanceOf(faster.plan, *known_.own) > DistanceOf(other.plan, *known_.own)) {
      return "tied, and farther from your own plan";
    }
    if (known_.recipe == other.plan) return "tied, and no published recipe";
    return Unusualness(faster.plan) > Unusualness(other.plan) ? "tied, and less usual"
                                                              : "cannot be told apart";
  }

  const ChoiceLimits& limits_;
  int sequence_length_;
  std::vector<RankedPlan> candidates_;
  KnownPlans known_;
  std::vector<TimeUncertainty> uncertainties_;
  Choice choice_;
};

// Adds the fastest plans without features that hardly any measured run has confirmed, if no plan
// that was found is without them.
void AddConfirmed(const Problem& problem, const Calibration& calibration,
                  const SearchOptions& options, SearchFound& found) {
  const int length = problem.workload.sequence_length;
  const auto is_confirmed = [&](const RecomputeChoice& choice) {
    return UnmeasuredFeatures(choice.plan, length).empty();
  };
  const bool has_one = std::ranges::any_of(found.best, is_confirmed) ||
                       std::ranges::any_of(found.close, is_confirmed);
  if (has_one) return;
  Problem confirmed = problem;
  confirmed.space = WithoutUnmeasured(problem.space, length);
  if (confirmed.space == problem.space) return;  // the user has chosen the features
  SearchFound others = BestPlansOf(confirmed, calibration, options);
  std::ranges::move(others.best, std::back_inserter(found.close));
  std::ranges::move(others.close, std::back_inserter(found.close));
}

}  // namespace

SearchFound SafePlans(const PreparedQuestion& question, const SearchFound& found,
                      const SearchOptions& options, std::vector<std::string>& warnings) {
  const ChoiceLimits& limits = question.request.choice;
  const bool is_whole = question.request.strategy == kExhaustive && found.summary.complete;
  if (!is_whole) return found;
  const Calibration& calibration = question.learnt.calibration;
  const Problem smaller = WithSureMemory(question.problem, limits.min_fit_probability, calibration);
  SearchOptions wide = options;
  wide.are_alike = &AreOneKind;
  if (limits.tie_probability > 0.5) wide.close_ratio = kKeptRatio;
  wide.on_progress = {};  // the counts of the first search are kept
  SearchFound safe = BestPlansOf(smaller, calibration, wide);
  if (!safe.summary.complete) {
    warnings.push_back(
        fmt::format("the search for plans that fit with a probability of {} ended early: a faster "
                    "one may exist",
                    limits.min_fit_probability));
  }
  if (safe.close_were_cut) {
    warnings.push_back(fmt::format(
        "more than {} plans take at most {} times as long as the fastest: the choice is among the "
        "fastest of them",
        KeepOptions().close_limit, kKeptRatio));
  }
  if (safe.best.empty()) return found;
  if (wide.close_ratio > 1) AddConfirmed(smaller, calibration, wide, safe);
  return safe;
}

std::vector<RankedPlan> CandidatesOf(const SearchFound& found, SwitchedPlans& plans) {
  std::vector<RankedPlan> candidates;
  for (const RecomputeChoice& choice : found.best) candidates.push_back(plans.Usual(choice.plan));
  for (const RecomputeChoice& choice : found.close) {
    if (std::ranges::find(found.best, choice.plan, &RecomputeChoice::plan) == found.best.end()) {
      candidates.push_back(plans.Usual(choice.plan));
    }
  }
  return candidates;
}

void Recommend(const PreparedQuestion& question, std::vector<RankedPlan> candidates,
               const std::optional<Baseline>& baseline, SwitchedPlans& plans, StudyResult& result) {
  KnownPlans known;
  if (baseline.has_value()) {
    const ParallelPlan& plan = baseline->ranked.plan;
    const bool runs = baseline->ranked.estimate.fits;  // or else it is no plan to stay near to
    if (baseline->origin == BaselineOrigin::kStated && runs) known.own = plan;
    if (baseline->origin == BaselineOrigin::kRecipe) known.recipe = plan;
  }
  // A default baseline knows nothing of the dimensions that the user has narrowed.
  const bool may_add = known.own.has_value() || question.request.dimensions.empty();
  const bool adds_baseline = may_add && baseline.has_value() && baseline->ranked.estimate.fits &&
                             std::ranges::none_of(candidates, [&](const RankedPlan& candidate) {
                               return IsSame(candidate, baseline->ranked);
                             });
  if (adds_baseline) candidates.push_back(baseline->ranked);
  Table table(question, std::move(candidates), known, plans);
  const bool keeps = table.IsOwnTied();
  if (keeps) table.PutOwnFirst();
  std::vector<VerdictFact> facts =
      keeps ? table.KeepFacts(*result.model_optimum) : table.LaunchFacts(*result.model_optimum);
  std::string reason = VerdictText(facts, question.request.choice);
  result.recommendation = {.advice = keeps ? Advice::kKeepYours : Advice::kLaunch,
                           .reason = std::move(reason),
                           .facts = std::move(facts)};
  // Unless it is the first, the answer shows an added baseline as the baseline only.
  result.plans = table.Kinds(static_cast<std::size_t>(question.request.plan_count),
                             adds_baseline ? &baseline->ranked : nullptr);
}

void NoteSureOffload(const PreparedQuestion& question, const SearchOptions& options,
                     StudyResult& result) {
  const auto& [request, problem, baseline, runs, learnt] = question;
  const double least = request.choice.min_fit_probability;
  const bool is_proven = request.strategy == kExhaustive && result.search.complete;
  if (!is_proven || result.plans.front().estimate.fit_probability >= least) return;
  const std::optional<PreparedQuestion> opened = WithOffload(question);
  if (!opened.has_value()) return;
  const Problem& open = opened->problem;
  SearchOptions one = options;
  one.plan_count = 1;
  one.on_progress = {};  // the counts of the first search are kept
  const SearchFound found =
      BestPlansOf(WithSureMemory(open, least, learnt.calibration), learnt.calibration, one);
  if (found.best.empty()) return;
  AnalyticModel model(ToEstimatorProblem(open), learnt.calibration);
  const Estimate sure = RankPlan(found.best.front().plan, open, model).estimate;
  result.warnings.push_back(fmt::format(
      "with offload of optimizer states to the host, a plan fits with a probability of {} and "
      "takes {:.3g} s a step, by an assumed host: --dimension "
      "optimizer_offload_ratio=0,0.25,0.5,0.75,1 opens it",
      ProbabilityOf(sure.fit_probability), sure.step_time.count()));
}

}  // namespace meshwright
