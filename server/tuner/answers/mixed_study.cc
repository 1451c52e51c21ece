#include "server/tuner/answers/mixed_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "estimator/problem/legality_rule.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/recompute.h"
#include "search_space/base/count_text.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/found_plans.h"
#include "server/tuner/answers/mix_verdict.h"
#include "server/tuner/export/export.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/fingerprint.h"
#include "server/tuner/question/heterogeneous.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/run_cost.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/mixed/mixed_search.h"
#include "server/tuner/search/mixed/mixed_space.h"
#include "server/tuner/search/mixed/replica_space.h"
#include "server/tuner/search/question_search.h"
#include "server/tuner/search/search_plan.h"
#include "server/tuner/search/stop_status.h"

namespace meshwright {
namespace {

// A pool by itself.
struct PoolAlone {
  std::string name = {};
  Calibration calibration = {};
  absl::StatusOr<StudyAnswer> answer = absl::UnknownError("");

  [[nodiscard]] StudyResult* Result() {
    return answer.ok() ? std::get_if<StudyResult>(&*answer) : nullptr;
  }
  [[nodiscard]] const SearchSummary* Search() const {
    if (!answer.ok()) return nullptr;
    const auto* result = std::get_if<StudyResult>(&*answer);
    return result != nullptr ? &result->search : &std::get<Infeasible>(*answer).search;
  }
};

// Says if a pool on which nothing else fits may put optimizer states on its hosts.
enum class HostUse { kOpenIfNothingFits, kAsAsked };

std::vector<PoolAlone> AnswerPools(const PreparedQuestion& question, HostUse hosts,
                                   const OnePoolAnswer& answer_alone) {
  std::vector<PoolAlone> pools;
  for (const NodePool& pool : question.problem.cluster.pools) {
    PreparedQuestion alone = question;
    alone.problem = OnlyPool(question.problem, pool.name);
    if (hosts == HostUse::kAsAsked) alone.problem.closed_offload_percents.clear();
    alone.baseline.reset();  // it may be a plan for other pools
    for (ResolvedRun& run : alone.runs) {
      run.is_same_job = IsSameJob(*run.problem, alone.problem);
    }
    alone.learnt = LearnCalibration(TermsOf(alone.request), alone.problem, alone.runs);
    PoolAlone& added = pools.emplace_back();
    added.name = pool.name;
    added.calibration = alone.learnt.calibration;
    added.answer = answer_alone(alone);
    StudyResult* const result = added.Result();
    if (result == nullptr) continue;
    for (RankedPlan* plan : PlansOf(*result)) plan->plan.pools = {pool.name};
  }
  return pools;
}

void AddUpTo(std::int64_t part, std::int64_t& sum) { sum = std::min(kManyPlans, sum + part); }

std::int64_t& CountOf(std::string_view rule, SearchSummary& sum) {
  const auto found = std::ranges::find(sum.pruned_count_by_rule, rule,
                                       [](const auto& each) { return each.first; });
  if (found != sum.pruned_count_by_rule.end()) return found->second;
  return sum.pruned_count_by_rule.emplace_back(rule, 0).second;
}

// Adds up the searches, and keeps the least bound of what they left out.
class Summary {
 public:
  void Add(const PoolAlone& pool) {
    const SearchSummary* const search = pool.Search();
    if (search == nullptr) {  // ended early without a plan
      sum_.complete = false;
      has_bound_ = false;
      return;
    }
    AddUpTo(search->space_count, sum_.space_count);
    sum_.evaluated_count += search->evaluated_count;
    sum_.seconds += search->seconds;
    for (const auto& [rule, count] : search->pruned_count_by_rule) {
      AddUpTo(count, CountOf(rule, sum_));
    }
    if (!search->complete) LeaveOut(search->least_time, search->stop_cause);
  }

  void Add(const SetFound& set) {
    AddUpTo(set.space_count, sum_.space_count);
    sum_.evaluated_count += set.evaluated_count;
    AddUpTo(set.illegal_count, CountOf(kFrameworkRule, sum_));
    AddUpTo(set.space_count - set.illegal_count - set.evaluated_count, CountOf(kBoundRule, sum_));
    if (!set.IsProven()) LeaveOut(set.least_left_out, set.stopped.value_or(StopCause::kFinished));
  }

  // Returns the summary for the fastest plan.
  SearchSummary Take(Seconds fastest, Seconds floor) {
    if (sum_.complete) return std::move(sum_);
    const Seconds least = has_bound_ ? std::max(least_.value_or(floor), floor) : floor;
    sum_.least_time = least;
    sum_.optimality_gap = std::max(0.0, fastest / least - 1);
    if (sum_.optimality_gap <= 0 && sum_.stop_cause == StopCause::kFinished) sum_.complete = true;
    return std::move(sum_);
  }

 private:
  void LeaveOut(std::optional<Seconds> least, StopCause cause) {
    sum_.complete = false;
    if (sum_.stop_cause == StopCause::kFinished) sum_.stop_cause = cause;
    if (!least.has_value()) has_bound_ = false;
    if (least.has_value()) least_ = std::min(least_.value_or(*least), *least);
  }

  SearchSummary sum_ = {.complete = true};
  std::optional<Seconds> least_ = {};
  bool has_bound_ = true;
};

Summary SummaryOf(const std::vector<PoolAlone>& pools, const MixedFound& found) {
  Summary summary;
  for (const PoolAlone& pool : pools) summary.Add(pool);
  for (const SetFound& set : found.sets) summary.Add(set);
  for (const SetFound& set : found.replicas) summary.Add(set);
  return summary;
}

// Prices the user's own plan by what runs taught of its pool, or of mixes if it has several.
RankedPlan RankBaseline(const ParallelPlan& plan, const PreparedQuestion& question,
                        const std::vector<PoolAlone>& pools) {
  const Problem own = *ProblemOfPlan(std::make_shared<const Problem>(question.problem), plan);
  Calibration calibration = question.learnt.calibration;
  for (const PoolAlone& pool : pools) {
    if (plan.pools == std::vector{pool.name}) calibration = pool.calibration;
  }
  AnalyticModel model(ToEstimatorProblem(own), calibration);
  return RankPlan(plan, own, model);
}

// Returns a lower bound of the step of any plan, whatever pools it uses.
Seconds FloorOf(const std::vector<PoolAlone>& pools, const Problem& problem,
                const Calibration& calibration) {
  Seconds floor = FloorOfStep(problem, calibration);
  for (const PoolAlone& pool : pools) {
    floor = std::min(floor, FloorOfStep(OnlyPool(problem, pool.name), pool.calibration));
  }
  return floor;
}

Contender ContenderOf(const ParallelPlan& plan, AnalyticModel& model) {
  Contender contender = {.pools = PoolsOf(plan), .plan = plan, .estimate = model.Full(plan)};
  contender.uncertainty = model.UncertaintyOf(plan, contender.estimate);
  return contender;
}

// Returns the fastest plan of a set of pools, or null if none fits.
const RecomputeChoice* BestOfSet(const MixedFound& found, std::size_t set) {
  const RecomputeChoice* best = found.sets[set].best.has_value() ? &*found.sets[set].best : nullptr;
  if (found.replicas.empty() || !found.replicas[set].best.has_value()) return best;
  const RecomputeChoice& replicas = *found.replicas[set].best;
  const bool is_faster = best == nullptr || replicas.estimate.step_time < best->estimate.step_time;
  return is_faster ? &replicas : best;
}

MixContest ContestOf(std::vector<PoolAlone>& pools, const MixedFound& found,
                     const PreparedQuestion& question, AnalyticModel& model) {
  const Problem& problem = question.problem;
  MixContest contest;
  for (PoolAlone& pool : pools) {
    const StudyResult* const result = pool.Result();
    if (result == nullptr) continue;
    const Problem alone = OnlyPool(problem, pool.name);
    AnalyticModel own(ToEstimatorProblem(alone), pool.calibration);
    contest.alone.push_back(ContenderOf(result->model_optimum->plan, own));
  }
  for (std::size_t i = 0; i < found.sets.size(); ++i) {
    if (const RecomputeChoice* best = BestOfSet(found, i)) {
      contest.mixes.push_back(ContenderOf(best->plan, model));
    }
  }
  if (const SetFound* replicas = FastestOf(found.replicas)) {
    contest.replicas = ContenderOf(replicas->best->plan, model);
  }
  if (const SetFound* pipeline = FastestOf(found.sets)) {
    contest.pipeline = ContenderOf(pipeline->best->plan, model);
  }
  if (const SetFound* equal = FastestOf(found.equal)) {
    contest.equal = ContenderOf(equal->best->plan, model);
  }
  return contest;
}

// Moves the fastest mix that has no replicas that differ to the front, unless the one there is
// surely faster, or fits as surely as `least` and the other does not: what no run has confirmed
// does not win by it.
void PreferPipelines(std::vector<RankedPlan>& mixes, double least, AnalyticModel& model) {
  if (mixes.empty()) return;
  const bool is_safe = mixes.front().estimate.fit_probability >= least;
  const auto pipeline = std::ranges::find_if(mixes, [&](const RankedPlan& mix) {
    return mix.plan.replica_groups.empty() && (!is_safe || mix.estimate.fit_probability >= least);
  });
  if (pipeline == mixes.begin() || pipeline == mixes.end()) return;
  const Contender plain = ContenderOf(pipeline->plan, model);
  if (IsSurelyFaster(ContenderOf(mixes.front().plan, model), plain)) return;
  std::rotate(mixes.begin(), pipeline, pipeline + 1);
}

// Returns the fastest mixed plans that fit surely enough: those that were found, or those of
// another search with less memory. Returns the plans that were found if no mix fits so surely.
std::vector<RankedPlan> SureMixes(const PreparedQuestion& question, const MixedFound& found,
                                  const SearchOptions& options, AnalyticModel& model) {
  const Problem& problem = question.problem;
  const double least = question.request.choice.min_fit_probability;
  const auto ranked = [&](const MixedFound& each) {
    std::vector<RankedPlan> plans;
    for (const std::vector<SetFound>* sets : {&each.sets, &each.replicas}) {
      for (const SetFound& set : *sets) {
        if (set.best.has_value()) plans.push_back(RankPlan(set.best->plan, problem, model));
      }
    }
    std::ranges::stable_sort(plans, {},
                             [](const RankedPlan& plan) { return plan.estimate.step_time; });
    PreferPipelines(plans, least, model);
    return plans;
  };
  std::vector<RankedPlan> plans = ranked(found);
  if (plans.front().estimate.fit_probability >= least) return plans;
  const Calibration& calibration = question.learnt.calibration;
  const MixedFound sure =
      SearchMixed(WithSureMemory(problem, least, calibration), calibration, options);
  return FastestOf(sure) == nullptr ? plans : ranked(sure);
}

bool FitsSurely(const RankedPlan& plan, const StudyRequest& request) {
  return plan.estimate.fit_probability >= request.choice.min_fit_probability;
}

// Returns the pool to use if only one is: the one whose first plan is the fastest of those that fit
// as surely as asked, or of all if none does. Returns null if no pool holds the job.
PoolAlone* BestPool(std::vector<PoolAlone>& pools, const StudyRequest& request) {
  PoolAlone* best = nullptr;
  const auto rank = [&](PoolAlone& pool) {
    const RankedPlan& first = pool.Result()->plans.front();
    return std::pair(!FitsSurely(first, request), first.estimate.step_time);
  };
  for (PoolAlone& pool : pools) {
    if (pool.Result() == nullptr) continue;
    if (best == nullptr || rank(pool) < rank(*best)) best = &pool;
  }
  return best;
}

// Returns the fastest plan of one pool by the model.
std::optional<RankedPlan> OptimumOfPools(std::vector<PoolAlone>& pools) {
  std::optional<RankedPlan> fastest;
  for (PoolAlone& pool : pools) {
    if (pool.Result() == nullptr) continue;
    const RankedPlan& own = *pool.Result()->model_optimum;
    const bool is_faster =
        !fastest.has_value() || own.estimate.step_time < fastest->estimate.step_time;
    if (is_faster) fastest = own;
  }
  return fastest;
}

// Explains why neither a pool nor a mix holds the job: by the pool that comes nearest.
absl::StatusOr<StudyAnswer> NothingFits(std::vector<PoolAlone>& pools, const MixedFound& found) {
  for (const std::vector<SetFound>* sets : {&found.sets, &found.replicas}) {
    for (const SetFound& set : *sets) {
      if (set.stopped.has_value()) return StopStatus(*set.stopped, "no plan fits so far");
    }
  }
  PoolAlone* nearest = nullptr;
  for (PoolAlone& pool : pools) {
    if (!pool.answer.ok()) return pool.answer.status();
    const Infeasible& own = std::get<Infeasible>(*pool.answer);
    if (!own.nearest.has_value()) continue;
    if (nearest == nullptr || own.missing < std::get<Infeasible>(*nearest->answer).missing) {
      nearest = &pool;
    }
  }
  if (nearest == nullptr) nearest = &pools.front();
  Infeasible answer = std::get<Infeasible>(*nearest->answer);
  if (answer.nearest.has_value()) answer.nearest->plan.pools = {nearest->name};
  answer.suggestions.insert(
      answer.suggestions.begin(),
      fmt::format("no mix of the pools fits either; what follows is about pool \"{}\" alone",
                  nearest->name));
  return answer;
}

// Makes the answer whose first plan mixes pools, without its search.
StudyResult MixResult(const PreparedQuestion& question, std::vector<RankedPlan> mixes,
                      PoolAlone* alone) {
  const Problem& problem = question.problem;
  StudyResult result;
  result.calibration = question.learnt.report;
  result.applied_defaults = problem.applied_defaults;
  result.warnings = WarningsOf(problem, question.learnt.calibration);
  result.plans = std::move(mixes);
  const auto count = static_cast<std::size_t>(std::max(1, question.request.plan_count));
  if (result.plans.size() > count) result.plans.resize(count);
  AddExports(problem, result);
  AddRunCosts(question.request.run, problem, result);
  if (alone == nullptr) return result;
  // The best pool's own plan comes last, with the launch files of its own answer.
  const StudyResult& own = *alone->Result();
  result.baseline = own.baseline;
  if (count == 1) return result;
  if (result.plans.size() == count) result.plans.pop_back();
  result.plans.push_back(own.plans.front());
  return result;
}

// Returns true if a mix is to be launched rather than the plan of one pool: it must fit as surely
// as asked, unless that plan does not either, and be faster by the margin, unless only the mix fits
// surely. The verdict's gain is that of the model's fastest mix, which may be another plan.
bool IsWorthLaunching(const RankedPlan& mix, const RankedPlan& own, const StudyRequest& request) {
  const bool is_sure = FitsSurely(mix, request);
  if (is_sure != FitsSurely(own, request)) return is_sure;
  return (1 + request.mix_margin) * mix.estimate.step_time < own.estimate.step_time;
}

// Decides between the mixes to launch, of which there is at least one, and the best pool.
void DecideByWhatIsLaunched(const RankedPlan& mix, PoolAlone& alone, const StudyRequest& request,
                            Heterogeneous& compared) {
  const RankedPlan& own = alone.Result()->plans.front();
  const double least = 100 * request.choice.min_fit_probability;
  const bool is_only_sure_one = FitsSurely(mix, request) && !FitsSurely(own, request);
  if (compared.verdict == MixVerdict::kMix && !IsWorthLaunching(mix, own, request)) {
    compared.verdict = MixVerdict::kOnePool;
    compared.reason = fmt::format(
        "\"{}\" alone has {} tokens/s; no mix that brings more than the margin of {:.3g} % fits "
        "with a probability of {:.3g} % or more",
        alone.name, CountText(std::llround(compared.tokens_per_second_by_pool.at(alone.name))),
        100 * request.mix_margin, least);
  }
  if (compared.verdict == MixVerdict::kOnePool && is_only_sure_one) {
    compared.verdict = MixVerdict::kMix;
    compared.reason = fmt::format(
        "No plan for one pool fits with a probability of {:.3g} % or more; this mix does", least);
  }
}

// Says of the pools that are faster by the model than the one to use why they are not used.
void NamePoolsLeft(std::vector<PoolAlone>& pools, const PoolAlone& alone,
                   const StudyRequest& request, Heterogeneous& compared) {
  const std::map<std::string, double>& speeds = compared.tokens_per_second_by_pool;
  for (PoolAlone& pool : pools) {
    const bool is_left = pool.Result() != nullptr && speeds.at(pool.name) > speeds.at(alone.name) &&
                         !FitsSurely(pool.Result()->plans.front(), request);
    if (!is_left) continue;
    compared.reason += fmt::format(
        "; \"{}\" alone is used, because no plan for \"{}\" fits with a probability of {:.3g} % or "
        "more",
        alone.name, pool.name, 100 * request.choice.min_fit_probability);
  }
}

// Says why the plan to launch is not the fastest mix, if that has replicas that differ.
void NameReplicasLeft(const ParallelPlan& fastest, const ParallelPlan& launched,
                      Heterogeneous& compared) {
  if (fastest.replica_groups.empty() || !launched.replica_groups.empty()) return;
  compared.reason +=
      "; the fastest mix has replicas that differ, which no measured run backs: a pipeline over "
      "the pools is launched";
}

// Says why to launch `launched`, with its own gain where the fastest mix has another.
std::string ReasonToMix(const Heterogeneous& compared, const RankedPlan& launched,
                        const Problem& problem) {
  if (compared.tokens_per_second_by_pool.empty()) return "No pool holds the job alone.";
  if (compared.gain_low_ratio.value_or(1) <= 1) return compared.reason + ".";
  const double own =
      TokensPerSecond(launched.estimate, problem) / compared.lower_bound_tokens_per_second;
  const std::string own_words = fmt::format("{:.2f}", own);
  const std::string fastest = fmt::format("{:.2f}", compared.gain_ratio);
  const std::string least = fmt::format("more than {:.2f} times with a probability of 90 %",
                                        compared.gain_low_ratio.value_or(1));
  if (own_words == fastest) {
    return fmt::format(
        "It mixes pools. By the model it has {} times the speed of the best pool alone, and {}.",
        fastest, least);
  }
  return fmt::format(
      "It mixes pools. By the model it has {} times the speed of the best pool alone. The fastest "
      "mix has {} times, and {}.",
      own_words, fastest, least);
}

void WarnIfCut(StudyResult& result) {
  if (result.search.complete) return;
  result.warnings.push_back(fmt::format(
      "the search ended early: a plan may be up to {:.2f} % faster than the fastest found",
      100 * result.search.optimality_gap));
}

// Says why replicas that differ are not searched.
void WarnIfReplicasAreAlike(const Problem& problem, StudyResult& result) {
  const LegalityRule* const rule = RuleAgainstReplicas(problem);
  if (rule == nullptr) return;
  result.warnings.push_back(fmt::format("replicas that differ are not searched: {}: {} ({})",
                                        problem.profile.name, rule->sentence, rule->source));
}

// Returns INTERNAL if a mix of the answer is not legal or not possible.
absl::Status CheckMixes(const StudyResult& result, const Problem& problem) {
  for (const RankedPlan& plan : result.plans) {
    if (StagesNamePools(plan.plan)) RETURN_IF_ERROR(CheckFound(plan, problem));
  }
  const std::optional<RankedPlan>& optimum = result.model_optimum;
  if (optimum.has_value() && StagesNamePools(optimum->plan)) return CheckFound(*optimum, problem);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StudyAnswer> AnswerMixed(const PreparedQuestion& question,
                                        const SearchOptions& options,
                                        const OnePoolAnswer& answer_alone) {
  const auto& [request, problem, baseline, runs, learnt] = question;
  std::vector<PoolAlone> pools = AnswerPools(question, HostUse::kAsAsked, answer_alone);
  AnalyticModel model(ToEstimatorProblem(problem), learnt.calibration);
  const MixedFound found = SearchMixed(problem, learnt.calibration, options);
  const SetFound* const mix = FastestOf(found);
  if (BestPool(pools, request) == nullptr && mix == nullptr) {
    pools = AnswerPools(question, HostUse::kOpenIfNothingFits, answer_alone);
  }
  PoolAlone* const alone = BestPool(pools, request);
  if (alone == nullptr && mix == nullptr) return NothingFits(pools, found);

  Summary summary = SummaryOf(pools, found);
  Heterogeneous compared =
      Compare(ContestOf(pools, found, question, model), request.mix_margin, problem, model);
  const bool is_unsure = alone == nullptr || !FitsSurely(alone->Result()->plans.front(), request);
  std::vector<RankedPlan> sure;
  if (mix != nullptr && (compared.verdict == MixVerdict::kMix || is_unsure)) {
    sure = SureMixes(question, found, options, model);
    if (alone != nullptr) DecideByWhatIsLaunched(sure.front(), *alone, request, compared);
  }
  std::optional<RankedPlan> optimum = OptimumOfPools(pools);
  const bool mixes = compared.verdict == MixVerdict::kMix;
  if (!mixes) NamePoolsLeft(pools, *alone, request, compared);
  if (mixes) NameReplicasLeft(mix->best->plan, sure.front().plan, compared);
  StudyResult result =
      mixes ? MixResult(question, std::move(sure), alone) : std::move(*alone->Result());
  const bool is_mix_faster =
      mix != nullptr &&
      (!optimum.has_value() || mix->best->estimate.step_time < optimum->estimate.step_time);
  if (is_mix_faster) optimum = RankPlan(mix->best->plan, problem, model);
  result.model_optimum = std::move(optimum);
  RETURN_IF_ERROR(CheckMixes(result, problem));
  if (baseline.has_value()) result.baseline = RankBaseline(baseline->plan, question, pools);
  result.search = summary.Take(result.model_optimum->estimate.step_time,
                               FloorOf(pools, problem, learnt.calibration));
  if (mixes) {
    result.recommendation = {.advice = Advice::kLaunch,
                             .reason = ReasonToMix(compared, result.plans.front(), problem)};
  }
  WarnIfCut(result);
  WarnIfReplicasAreAlike(problem, result);
  result.heterogeneous = std::move(compared);
  return result;
}

}  // namespace meshwright
