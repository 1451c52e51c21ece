#include "server/tuner/trials/trial_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "pruner/rules/history.h"
#include "pruner/rules/prune_rule.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/run_cost.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/question/trial_journal.h"
#include "server/tuner/search/baseline.h"
#include "server/tuner/search/search_plan.h"
#include "server/tuner/trials/trial_chooser.h"
#include "server/tuner/trials/trial_model.h"
#include "server/tuner/trials/trial_pruning.h"
#include "server/tuner/trials/trial_ranking.h"
#include "server/tuner/trials/trial_repeats.h"
#include "server/tuner/trials/trials.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

// Number of a job's trials that are compared with its history; parts that they do not contradict
// stay.
constexpr std::size_t kGateTrials = 3;

// Removes duplicates and sorts into canonical order, so that the answer does not depend on the
// order in which the plans were stated.
std::vector<RankedPlan> Estimated(std::vector<ParallelPlan> plans, const Problem& problem,
                                  AnalyticModel& model) {
  std::sort(plans.begin(), plans.end());
  plans.erase(std::unique(plans.begin(), plans.end()), plans.end());
  std::vector<RankedPlan> ranked;
  ranked.reserve(plans.size());
  for (ParallelPlan& plan : plans) ranked.push_back(RankPlan(std::move(plan), problem, model));
  return ranked;
}

// Returns `runs` followed by those of the trials.
std::vector<ResolvedRun> WithTrials(std::vector<ResolvedRun> runs,
                                    const std::shared_ptr<const Problem>& problem,
                                    const std::vector<TriedPlan>& tried) {
  const std::map<ParallelPlan, PlanRuns> by_plan = RunsByPlan(tried);
  for (const TriedPlan& trial : tried) {
    if (trial.purpose != TrialPurpose::kSearch) continue;
    const TrialOutcome& outcome = by_plan.at(trial.plan).outcome;
    const auto* ran = std::get_if<Ran>(&outcome);
    runs.push_back({.stated = problem,
                    .problem = problem,
                    .plan = trial.plan,
                    .is_same_job = true,
                    .outcome = OutcomeOf(outcome),
                    .step_time = ran == nullptr ? std::nullopt : std::optional(ran->step_time),
                    .peak_memory = ran == nullptr ? std::nullopt : ran->peak_memory});
  }
  return runs;
}

class TrialStudy {
 public:
  explicit TrialStudy(PreparedQuestion question)
      : request_(std::move(question.request)),
        shared_problem_(std::make_shared<const Problem>(std::move(question.problem))),
        problem_(*shared_problem_),
        baseline_(std::move(question.baseline)),
        runs_(std::move(question.runs)),
        history_(std::move(question.learnt.calibration)) {
    result_.calibration = std::move(question.learnt.report);
  }

  absl::StatusOr<StudyAnswer> Run(const TrialSetup& setup, Launcher& launcher,
                                  const StudyControl& control) {
    const Clock::time_point start = Clock::now();
    RETURN_IF_ERROR(WriteDownLearnt(control.trials));
    AnalyticModel model(ToEstimatorProblem(problem_), history_);
    result_.applied_defaults = problem_.applied_defaults;
    history_warnings_ = history_.warnings;
    auto baseline = BaselineOf(baseline_, problem_, model, result_.applied_defaults);
    if (baseline.has_value()) result_.baseline = std::move(baseline->ranked);
    const bool measures_baseline = setup.runs_jobs && result_.baseline.has_value();
    ASSIGN_OR_RETURN(std::vector<RankedPlan> candidates,
                     Candidates(setup.candidates, measures_baseline, model, control));
    TrialChooser chooser(std::move(candidates), problem_.model.layer_count,
                         request_.disabled_rules);
    LearnFromRuns(chooser);
    LearnFromFailures(chooser);
    TrialOptions options = OptionsOf(chooser, control, start);
    if (setup.runs_jobs) SpareJobs(options.budget);
    options.journal = control.trials;
    options.skips_ruled_out = setup.runs_jobs;
    options.repeats = request_.trials->repeats;
    options.reconsider = [&](const std::vector<TriedPlan>& tried) {
      return Reconsidered(tried, chooser, control.trials);
    };
    if (measures_baseline && !learnt_.outcomes.contains(result_.baseline->plan)) {
      options.baseline = IndexOf(result_.baseline->plan, chooser);
    }
    TrialsRun run = RunTrials(chooser, launcher, options);
    if (run.tried.empty() && !run.failure.ok()) return run.failure;
    const bool is_late =
        run.summary.stop == TrialStop::kCancelled && !control.cancel.stop_requested();
    if (is_late) run.summary.stop = TrialStop::kTimeLimit;
    Conclude(chooser, run, control.trials);
    if (is_late) result_.search.stop_cause = StopCause::kDeadline;
    if (control.cancel.stop_requested()) result_.search.stop_cause = StopCause::kCancelled;
    result_.search.seconds = Clock::now() - start;
    return std::move(result_);
  }

 private:
  // Returns the candidates, with the vendor's model's times if the request names one. The baseline
  // then has them too.
  absl::StatusOr<std::vector<RankedPlan>> Candidates(std::vector<ParallelPlan> plans,
                                                     bool has_baseline, AnalyticModel& model,
                                                     const StudyControl& control) {
    if (has_baseline) plans.push_back(result_.baseline->plan);
    std::vector<RankedPlan> candidates = Estimated(std::move(plans), problem_, model);
    std::vector<RankedPlan*> asked;
    asked.reserve(candidates.size() + 1);
    for (RankedPlan& candidate : candidates) asked.push_back(&candidate);
    if (!has_baseline && result_.baseline.has_value()) asked.push_back(&*result_.baseline);
    RETURN_IF_ERROR(EstimateByAskedModel(request_, problem_, control, asked, result_.warnings));
    if (has_baseline) {
      result_.baseline = *std::ranges::find(candidates, result_.baseline->plan, &RankedPlan::plan);
    }
    return candidates;
  }

  // Records what the history teaches before anything runs.
  [[nodiscard]] absl::Status WriteDownLearnt(const TrialJournal* journal) const {
    const bool is_kept = journal != nullptr && journal->learnt && result_.calibration.has_value();
    return is_kept ? journal->learnt(*result_.calibration) : absl::OkStatus();
  }

  // Learns candidates that ran before in the same job, which need not run again. With an
  // interleaved baseline it learns none: their old times do not compare with ratios to the
  // machine's speed today.
  void LearnFromRuns(TrialChooser& chooser) {
    if (request_.trials->repeats.interleaves_baseline) return;
    std::map<std::size_t, std::vector<Ran>> runs;
    for (const ResolvedRun& run : runs_) {
      if (!run.is_same_job || run.is_by_own_facts) continue;
      if (run.outcome != Outcome::kOk || !run.step_time) continue;
      const auto i = IndexOf(WithStatedSplit(run.plan, problem_), chooser);
      if (!i.has_value()) continue;
      runs[*i].push_back({.step_time = *run.step_time, .peak_memory = run.peak_memory});
    }
    for (auto& [i, same] : runs) {
      std::ranges::sort(same, {}, &Ran::step_time);
      const Ran& median = same[(same.size() - 1) / 2];
      chooser.Learn(i, median);
      learnt_.outcomes[chooser.candidates()[i].plan] = median;
    }
  }

  // Learns candidates that failed before, which need not run again either.
  void LearnFromFailures(TrialChooser& chooser) {
    for (const FailedRun& run : history_.failed) {
      const auto i = IndexOf(WithStatedSplit(run.plan, problem_), chooser);
      if (!i.has_value() || chooser.was_tried(*i)) continue;
      const TrialOutcome outcome = TrialOutcomeOf(run.outcome, Seconds(0), std::nullopt);
      chooser.Learn(*i, outcome);
      learnt_.outcomes[chooser.candidates()[*i].plan] = outcome;
      result_.warnings.push_back(fmt::format("rule {}: not tried: {} {} in the history",
                                             kHistoryRule, MakePlanKey(run.plan).text,
                                             FailureWords(run.outcome)));
    }
  }

  // Returns the candidates estimated by the remaining history, if the first trials contradict what
  // other jobs' runs taught about this one; otherwise nullopt.
  std::optional<std::vector<RankedPlan>> Reconsidered(const std::vector<TriedPlan>& tried,
                                                      const TrialChooser& chooser,
                                                      const TrialJournal* journal) {
    // A vendor's times do not depend on our history.
    const bool is_by_vendor = std::ranges::any_of(
        chooser.candidates(),
        [](const RankedPlan& candidate) { return IsByVendor(candidate.estimate); });
    if (tried.size() > kGateTrials || is_by_vendor || !DropContradicted(tried, journal)) {
      return std::nullopt;
    }
    std::vector<ParallelPlan> plans;
    for (const RankedPlan& candidate : chooser.candidates()) plans.push_back(candidate.plan);
    AnalyticModel model(ToEstimatorProblem(problem_), history_);
    return Estimated(std::move(plans), problem_, model);
  }

  // Drops permanently what other jobs' runs say and the trials contradict. Returns true if that is
  // more than before.
  bool DropContradicted(const std::vector<TriedPlan>& tried, const TrialJournal* journal) {
    if (runs_.empty()) return false;
    const Calibration judged = Calibrate(WithTrials(runs_, shared_problem_, tried), problem_);
    const bool drops_times = judged.leaves_out_other_times || history_.leaves_out_other_times;
    const bool drops_memory = judged.leaves_out_other_memory || history_.leaves_out_other_memory;
    if (drops_times == history_.leaves_out_other_times &&
        drops_memory == history_.leaves_out_other_memory) {
      return false;
    }
    LearntCalibration learnt =
        LearnCalibration(TermsOf(request_), problem_, WithoutOthers(drops_times, drops_memory));
    history_ = std::move(learnt.calibration);
    history_.leaves_out_other_times = drops_times;
    history_.leaves_out_other_memory = drops_memory;
    history_warnings_ = judged.warnings;
    history_warnings_.insert(history_warnings_.end(), request_.warnings.begin(),
                             request_.warnings.end());
    result_.calibration = std::move(learnt.report);
    if (journal != nullptr && journal->learnt) {
      const absl::Status written = journal->learnt(result_.calibration);
      if (!written.ok()) result_.warnings.emplace_back(written.message());
    }
    return true;
  }

  // Returns the runs without other jobs' statements about times or memory.
  [[nodiscard]] std::vector<ResolvedRun> WithoutOthers(bool drops_times, bool drops_memory) const {
    std::vector<ResolvedRun> left = runs_;
    for (ResolvedRun& run : left) {
      if (run.is_same_job) continue;
      if (drops_times) run.step_time.reset();
      if (drops_memory) run.peak_memory.reset();
    }
    return left;
  }

  [[nodiscard]] TrialOptions OptionsOf(const TrialChooser& chooser, const StudyControl& control,
                                       Clock::time_point start) const {
    const int count = static_cast<int>(chooser.candidates().size());
    const int most = std::min(count, request_.trials->budget.trials);
    const auto report = [&control, count, most](int tried, std::optional<Seconds> best) {
      if (!control.on_progress) return;
      control.on_progress({.phase = "trials",
                           .space_count = count,
                           .considered_count = tried,
                           .evaluated_count = count,
                           .limit_count = most,
                           .best_step_time = best});
    };
    return {
        .budget = request_.trials->budget,
        .device_count = DeviceCount(problem_.cluster),
        .should_stop =
            [stop = SearchOptionsOf(request_, control, start).stop] { return stop().has_value(); },
        .should_leave = [leave = control.leave] { return leave.stop_requested(); },
        .on_trial = report};
  }

  // Sets the default of `stop_within` for real jobs. A replay has none, because its trials cost
  // nothing.
  void SpareJobs(TrialBudget& budget) {
    if (budget.stop_within.has_value()) return;
    budget.stop_within = kJobsStopWithin;
    result_.applied_defaults.push_back({.field = "trials.stop_within_ratio",
                                        .value = fmt::format("{}", kJobsStopWithin),
                                        .source = "trials of real jobs"});
  }

  // Returns the candidate that is this plan; nullopt if there is none.
  static std::optional<std::size_t> IndexOf(const ParallelPlan& plan, const TrialChooser& chooser) {
    const std::vector<RankedPlan>& all = chooser.candidates();
    const auto found = std::ranges::find(all, plan, &RankedPlan::plan);
    if (found == all.end()) return std::nullopt;
    return static_cast<std::size_t>(found - all.begin());
  }

  void Conclude(const TrialChooser& chooser, const TrialsRun& run, const TrialJournal* journal) {
    DropContradicted(run.tried, journal);
    learnt_.calibration = Calibrate(
        WithTrials(WithoutOthers(history_.leaves_out_other_times, history_.leaves_out_other_memory),
                   shared_problem_, run.tried),
        problem_);
    ForgetFailuresIfOff(request_.disabled_rules, learnt_.calibration);
    for (const auto& [plan, runs] : RunsByPlan(run.tried)) learnt_.outcomes[plan] = runs.outcome;
    result_.plans = RankAfterTrials(chooser, learnt_, problem_, request_.plan_count);
    result_.trials = run.tried;
    const bool has_baseline = result_.baseline.has_value();
    if (has_baseline) RankBaseline(chooser);
    result_.trial_summary = run.summary;
    SearchSummary& search = result_.search;
    search.space_count = run.summary.candidate_count;
    search.evaluated_count = run.summary.candidate_count;
    search.complete = run.summary.stop == TrialStop::kAllTried;
    if (!search.complete && !result_.plans.empty()) {
      const bool is_vendors = request_.cost_model.has_value();
      const Seconds floor =
          is_vendors ? LeastStep(problem_) : FloorOfStep(problem_, learnt_.calibration);
      search.optimality_gap = std::max(0.0, result_.plans.front().estimate.step_time / floor - 1);
    }
    NoteTrials(run, request_.trials->repeats, chooser.best().has_value(), result_);
    NotePruned(chooser, history_.out_of_memory, result_);
    std::vector<std::string> before = problem_.warnings;
    before.insert(before.end(), history_warnings_.begin(), history_warnings_.end());
    result_.warnings.insert(result_.warnings.begin(), before.begin(), before.end());
    if (result_.plans.empty()) return;
    if (result_.baseline.has_value() || !has_baseline) NoteBaseline(result_);
    AddExports(problem_, result_);
    AddRunCosts(request_.run, problem_, result_);
  }

  // Ranks the baseline by what is known of it after the trials, even if it is not a candidate. It
  // is removed if it failed.
  void RankBaseline(const TrialChooser& chooser) {
    const ParallelPlan plan = result_.baseline->plan;
    const auto outcome = learnt_.outcomes.find(plan);
    if (outcome == learnt_.outcomes.end()) {
      AnalyticModel model(ToEstimatorProblem(problem_), learnt_.calibration);
      if (IsByVendor(result_.baseline->estimate)) {
        const auto i = IndexOf(plan, chooser);
        if (!i.has_value()) return;  // the trials do not cover it
        result_.baseline = RankUntried(chooser, *i, problem_, model);
        return;
      }
      result_.baseline = RankPlan(plan, problem_, model);
      return;
    }
    if (const Ran* run = std::get_if<Ran>(&outcome->second)) {
      result_.baseline = RankMeasured(*run, plan, problem_, learnt_.calibration);
      return;
    }
    result_.baseline.reset();
    const bool was_tried =
        std::ranges::find(result_.trials, plan, &TriedPlan::plan) != result_.trials.end();
    result_.warnings.push_back(
        fmt::format("{} ended with {}, so there is no time to compare with",
                    was_tried ? "the baseline's trial" : "the baseline's run in the history",
                    Word(OutcomeOf(outcome->second))));
  }

  const StudyRequest request_;
  const std::shared_ptr<const Problem> shared_problem_;  // also shared by the trials' own runs
  const Problem& problem_;
  const std::optional<ResolvedPlan> baseline_;
  const std::vector<ResolvedRun> runs_;  // from the history
  Calibration history_;                  // calibration from those runs
  std::vector<std::string> history_warnings_ = {};
  LearntOfTrials learnt_;
  StudyResult result_;
};

}  // namespace

absl::StatusOr<StudyAnswer> RunTrialStudy(PreparedQuestion question, const TrialSetup& setup,
                                          Launcher& launcher, const StudyControl& control) {
  return TrialStudy(std::move(question)).Run(setup, launcher, control);
}

}  // namespace meshwright
