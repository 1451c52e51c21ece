#include "server/launchers/job_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/launchers/job_engines.h"
#include "server/launchers/job_planner.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/launchers/jobs/job_launcher.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/attempt_journal.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/job_template.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/question/trial_journal.h"
#include "server/tuner/search/search_plan.h"
#include "server/tuner/trials/trial_study.h"

namespace meshwright {
namespace {

// Plans taken from the search, not counting those that differ only in the micro-batch.
constexpr int kSearchedPlans = 64;
// The time that a job of an earlier process may take to end after it is cancelled.
constexpr Seconds kEndLimit(60);

struct Candidates {
  std::vector<ParallelPlan> plans = {};
  int unstated_count = 0;  // plans of the search that the command cannot state
  std::string first_reason = {};
};

// Returns the plans of the search that the command can state, each also with half and twice its
// micro-batch.
Candidates CandidatesOf(const std::vector<RankedPlan>& plans, const JobPlanner& planner) {
  std::set<ParallelPlan> candidates;
  Candidates found;
  const auto add = [&](const ParallelPlan& plan) {
    absl::Status stated = CheckExpressible(planner, plan);
    if (stated.ok()) candidates.insert(plan);
    return stated;
  };
  for (const RankedPlan& ranked : plans) {
    if (absl::Status stated = add(ranked.plan); !stated.ok()) {
      if (found.unstated_count++ == 0) found.first_reason = std::string(stated.message());
    }
    const int own = ranked.plan.micro_batch_size;
    for (const int micro_batch : {own / 2, own * 2}) {
      if (micro_batch < 1) continue;
      ParallelPlan other = ranked.plan;
      other.micro_batch_size = micro_batch;
      const auto resolved = ResolvePlan(StatedPlan(other), planner.problem, "plan");
      if (resolved.ok()) add(WithStatedSplit(resolved->plan, planner.problem)).IgnoreError();
    }
  }
  found.plans.assign(candidates.begin(), candidates.end());
  return found;
}

Seconds PollInterval(const TrialRequest& trials) {
  return trials.job->poll_interval.value_or(JobEngineOf(trials.launcher).poll_interval);
}

absl::StatusOr<std::unique_ptr<JobEngine>> OpenEngine(const TrialRequest& trials,
                                                      const Problem& problem) {
  return JobEngineOf(trials.launcher).open(*trials.job, problem.cluster);
}

// Returns the request of the search before the trials, for enough plans to choose trials from.
StudyRequest SearchOf(const StudyRequest& request) {
  StudyRequest search = request;
  search.trials.reset();
  search.pareto = false;
  search.plan_count = kSearchedPlans;
  search.choice = kModelOrder;  // a trial that fails costs little, and teaches
  return search;
}

absl::Status CheckRequest(const StudyRequest& request, const StudyControl& control) {
  const std::string& launcher = request.trials->launcher;
  if (control.trials == nullptr || !control.trials->attempts.newest || !control.print_case) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format(
            "launcher {} needs a store, because a job that is not recorded could be lost",
            launcher)),
        "STORE_NEEDED");
  }
  return RefuseOpenSettings(request);
}

// Notes what was left out before any plan became a candidate for a trial.
void NoteSearch(const StudyResult& searched, const Candidates& candidates,
                std::string_view profile_name, StudyResult& answer) {
  if (candidates.unstated_count > 0) {
    answer.warnings.push_back(
        fmt::format("{} of the search's best plans were not candidates, because {} has no flags "
                    "for them; the first: {}",
                    candidates.unstated_count, profile_name, candidates.first_reason));
  }
  std::string pruned;
  for (const auto& [rule, count] : searched.search.pruned_count_by_rule) {
    if (count > 0) pruned += fmt::format("{}{} by {}", pruned.empty() ? "" : ", ", count, rule);
  }
  answer.warnings.push_back(fmt::format(
      "the candidates come from the {} best of the search's {} plans{}", searched.plans.size(),
      searched.search.space_count, pruned.empty() ? "" : ", of which were pruned: " + pruned));
  for (const std::string& warning : searched.warnings) {
    const bool is_said = std::ranges::find(answer.warnings, warning) != answer.warnings.end();
    if (!is_said) answer.warnings.push_back("search: " + warning);
  }
}

absl::StatusOr<StudyAnswer> Measure(const ResolvedStudy& study, const Knowledge& knowledge,
                                    const JobPlanner& planner, const StudyControl& control) {
  const TrialRequest& trials = *study.request.trials;
  ASSIGN_OR_RETURN(PreparedQuestion question, Prepare(study, knowledge, control.history));
  PreparedQuestion search = question;
  search.request = SearchOf(question.request);
  RETURN_IF_ERROR(NarrowSpace(search.request, search.problem));
  ASSIGN_OR_RETURN(StudyAnswer searched, AnswerQuestion(std::move(search), control));
  const auto* found = std::get_if<StudyResult>(&searched);
  if (found == nullptr) return searched;
  Progress progress = {.phase = "trials"};
  StudyControl measuring = control;
  measuring.on_progress = [&](const Progress& made) {
    const std::string status = std::exchange(progress, made).job_status;
    progress.job_status = status;
    if (control.on_progress) control.on_progress(progress);
  };
  ASSIGN_OR_RETURN(std::unique_ptr<JobEngine> engine, OpenEngine(trials, planner.problem));
  JobLauncher launcher(
      std::move(engine),
      {.make_job =
           [&](const ParallelPlan& plan, const OpenAttempt& attempt, Seconds time_limit) {
             JobTemplate job = planner.job;
             job.time_limit = time_limit;
             const JobPlanner own = {.job = job,
                                     .problem = planner.problem,
                                     .workloads_folder = planner.workloads_folder};
             return MakeJobSpec(own, plan, attempt,
                                control.print_case(study.request.question, plan));
           },
       .time_limit = trials.job->time_limit,
       .least_step = LeastStep(planner.problem),
       .journal = control.trials->attempts,
       .folder = trials.job->folder,
       .on_status =
           [&](int trial, const std::string& what) {
             progress.job_status = fmt::format("trial {}: {}", trial + 1, what);
             if (control.on_progress) control.on_progress(progress);
           },
       .poll_interval = PollInterval(trials),
       .queue_limit = trials.job->queue_limit,
       .lost_limit = JobEngineOf(trials.launcher).lost_limit});
  const Candidates candidates = CandidatesOf(found->plans, planner);
  ASSIGN_OR_RETURN(
      StudyAnswer answer,
      RunTrialStudy(std::move(question), {.candidates = candidates.plans, .runs_jobs = true},
                    launcher, measuring));
  if (auto* const result = std::get_if<StudyResult>(&answer)) {
    NoteSearch(*found, candidates, planner.problem.profile.name, *result);
  }
  return answer;
}

// Ends a job of an earlier process that was cancelled before this one resumed it. UNAVAILABLE with
// reason JOB_LEFT if it may still run.
absl::Status EndJobLeft(const TrialRequest& trials, const Problem& problem,
                        const AttemptJournal& journal) {
  const auto attempt = journal.newest();
  if (!attempt.ok() || !attempt->is_adopted) return absl::OkStatus();
  const auto left = [&](const std::string& why) {
    return WithReason(absl::UnavailableError(
                          fmt::format("job {} ({}) of launcher {} may still run: {}", attempt->id,
                                      attempt->external_id, trials.launcher, why)),
                      "JOB_LEFT");
  };
  const auto engine = OpenEngine(trials, problem);
  if (!engine.ok()) return left(std::string(engine.status().message()));
  const JobHandle job = {
      .attempt_id = attempt->id, .external_id = attempt->external_id, .folder = trials.job->folder};
  const Seconds poll = PollInterval(trials);
  std::string seen = "its state is not known";
  // time for which the engine has not known it: it never came, or it is long gone
  Seconds unknown(0);
  for (Seconds waited(0); waited <= kEndLimit; waited += poll) {
    (*engine)->Cancel(job).IgnoreError();  // a failure shows in the next poll
    const auto polled = (*engine)->Poll({&job, 1});
    const bool is_ended = polled.ok() && polled->front().state == JobState::kEnded;
    if (is_ended || unknown >= JobEngineOf(trials.launcher).lost_limit) return absl::OkStatus();
    const bool is_unknown = polled.ok() && polled->front().state == JobState::kUnknown;
    unknown = is_unknown ? unknown + poll : Seconds(0);
    seen = polled.ok() ? fmt::format("it is {}", Word(polled->front().state))
                       : std::string(polled.status().message());
    std::this_thread::sleep_for(poll);
  }
  return left(fmt::format("{:.0f} s after it was cancelled, {}", kEndLimit.count(), seen));
}

// Adds to the answer of a study that its job could not be ended.
absl::StatusOr<StudyAnswer> WithJobLeft(absl::StatusOr<StudyAnswer> answer,
                                        const absl::Status& ended) {
  if (ended.ok()) return answer;
  auto* const result = answer.ok() ? std::get_if<StudyResult>(&*answer) : nullptr;
  if (result == nullptr) return ended;
  result->warnings.emplace_back(ended.message());
  return answer;
}

}  // namespace

absl::StatusOr<StudyAnswer> RunJobStudy(const ResolvedStudy& study, const Knowledge& knowledge,
                                        const StudyControl& control) {
  RETURN_IF_ERROR(CheckRequest(study.request, control));
  const TrialRequest& trials = *study.request.trials;
  const auto end_job_left = [&] {
    return EndJobLeft(trials, study.problem, control.trials->attempts);
  };
  // A study that is stopped before it begins only has a job to end.
  if (control.cancel.stop_requested()) {
    if (!control.leave.stop_requested()) RETURN_IF_ERROR(end_job_left());
    return absl::CancelledError("cancelled before it was resumed");
  }
  ASSIGN_OR_RETURN(const JobPlanner planner, MakeJobPlanner(trials, study.problem));
  absl::StatusOr<StudyAnswer> answer = Measure(study, knowledge, planner, control);
  const bool is_cancelled = control.cancel.stop_requested() && !control.leave.stop_requested();
  return is_cancelled ? WithJobLeft(std::move(answer), end_job_left()) : std::move(answer);
}

}  // namespace meshwright
