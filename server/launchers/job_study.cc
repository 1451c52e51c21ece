#include "server/launchers/job_study.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "search_space/status.h"
#include "server/launchers/job_launcher.h"
#include "server/launchers/job_spec.h"
#include "server/launchers/kubernetes_engine.h"
#include "server/launchers/local_engine.h"
#include "server/launchers/slurm_engine.h"
#include "server/tuner/search_plan.h"
#include "server/tuner/trial_journal.h"
#include "server/tuner/trial_study.h"

namespace meshwright {
namespace {

// Of the search, without those that differ in the micro-batch alone.
constexpr int kSearchedPlans = 64;
constexpr Seconds kLocalPoll(0.2);
constexpr Seconds kLocalLost(1);
// Half a minute for a job to end that was left to be cancelled.
constexpr int kEndPolls = 30;
constexpr std::chrono::seconds kEndPoll(1);
// Sites ask that their scheduler is not asked more often.
constexpr Seconds kSlurmPoll(15);
constexpr Seconds kKubernetesPoll(5);

// Those of the search that the command can state, each also with half and twice its micro-batch.
std::vector<ParallelPlan> CandidatesOf(const std::vector<RankedPlan>& plans,
                                       const JobPlanner& planner) {
  std::set<ParallelPlan> candidates;
  const auto add = [&](const ParallelPlan& plan) {
    if (CheckExpressible(planner, plan).ok()) candidates.insert(plan);
  };
  for (const RankedPlan& ranked : plans) {
    add(ranked.plan);
    const int own = ranked.plan.micro_batch_size;
    for (const int micro_batch : {own / 2, own * 2}) {
      if (micro_batch < 1) continue;
      ParallelPlan other = ranked.plan;
      other.micro_batch_size = micro_batch;
      const auto resolved = ResolvePlan(StatedPlan(other), planner.problem, "plan");
      if (resolved.ok()) add(WithStatedSplit(resolved->plan, planner.problem));
    }
  }
  return {candidates.begin(), candidates.end()};
}

Seconds PollOf(std::string_view launcher) {
  if (launcher == kLocalLauncher) return kLocalPoll;
  return launcher == kSlurmLauncher ? kSlurmPoll : kKubernetesPoll;
}

absl::StatusOr<std::unique_ptr<JobEngine>> EngineOf(const TrialRequest& trials,
                                                    const Problem& problem) {
  const JobTemplate& job = *trials.job;
  if (trials.launcher == kSlurmLauncher) {
    return std::make_unique<SlurmEngine>(SlurmEngineOptions{.sbatch_flags = job.engine_flags});
  }
  if (trials.launcher == kKubernetesLauncher) return KubernetesEngine::Open(*job.kubernetes);
  const std::string slots = job.slots_folder.empty() ? UsersSlotsFolder() : job.slots_folder;
  return std::make_unique<LocalEngine>(
      LocalEngineOptions{.slots_folder = slots, .slot_count = DeviceCount(problem.cluster)});
}

// What the search alone answers, with enough plans to choose trials from.
StudyRequest SearchOf(const StudyRequest& request) {
  StudyRequest search = request;
  search.trials.reset();
  search.pareto = false;
  search.plan_count = kSearchedPlans;
  return search;
}

absl::Status CheckRequest(const StudyRequest& request, const StudyControl& control) {
  const std::string& launcher = request.trials->launcher;
  if (control.trials == nullptr || !control.trials->attempts.newest || !control.print_case) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format(
            "launcher {} needs a store: jobs that are not written down are lost", launcher)),
        "STORE_NEEDED");
  }
  std::vector<FieldViolation> found;
  for (std::size_t i = 0; i < request.dimensions.size(); ++i) {
    if (request.dimensions[i].name != "precision") continue;
    found.push_back(
        {.field = fmt::format("dimensions[{}]", i),
         .description = fmt::format("precision; launcher {} runs the workload's alone", launcher)});
  }
  return found.empty() ? absl::OkStatus() : InvalidFields(found);
}

absl::StatusOr<StudyAnswer> Measure(const StudyRequest& request, const Knowledge& knowledge,
                                    const JobPlanner& planner, const StudyControl& control) {
  const TrialRequest& trials = *request.trials;
  ASSIGN_OR_RETURN(StudyAnswer searched, RunStudy(SearchOf(request), knowledge, control));
  const auto* found = std::get_if<StudyResult>(&searched);
  if (found == nullptr) return searched;
  Progress progress = {.phase = "trials"};
  StudyControl measuring = control;
  measuring.on_progress = [&](const Progress& made) {
    const std::string status = std::exchange(progress, made).job_status;
    progress.job_status = status;
    if (control.on_progress) control.on_progress(progress);
  };
  const bool is_local = trials.launcher == kLocalLauncher;
  ASSIGN_OR_RETURN(std::unique_ptr<JobEngine> engine, EngineOf(trials, planner.problem));
  JobLauncher launcher(
      std::move(engine),
      {.make_job =
           [&](const ParallelPlan& plan, const OpenAttempt& attempt) {
             return MakeJobSpec(planner, plan, attempt, control.print_case(request.question, plan));
           },
       .journal = control.trials->attempts,
       .folder = trials.job->folder,
       .on_status =
           [&](int trial, const std::string& what) {
             progress.job_status = fmt::format("trial {}: {}", trial + 1, what);
             if (control.on_progress) control.on_progress(progress);
           },
       .poll_interval = trials.job->poll_interval.value_or(PollOf(trials.launcher)),
       .queue_limit = trials.job->queue_limit,
       // On this machine what is not there has not begun.
       .lost_limit = is_local ? kLocalLost : JobLauncherOptions().lost_limit});
  return RunTrialStudy(request, knowledge,
                       {.candidates = CandidatesOf(found->plans, planner), .runs_jobs = true},
                       launcher, measuring);
}

// A job of an earlier process that this one has not come to take up before it was cancelled.
void EndJobLeft(const TrialRequest& trials, const Problem& problem, const AttemptJournal& journal) {
  const auto attempt = journal.newest();
  const auto engine = EngineOf(trials, problem);
  if (!attempt.ok() || !attempt->is_adopted || !engine.ok()) return;
  const JobHandle job = {
      .attempt_id = attempt->id, .external_id = attempt->external_id, .folder = trials.job->folder};
  for (int i = 0; i < kEndPolls; ++i) {
    (*engine)->Cancel(job).IgnoreError();
    const auto polled = (*engine)->Poll({&job, 1});
    if (polled.ok() && polled->front().state == JobState::kEnded) return;
    std::this_thread::sleep_for(kEndPoll);
  }
}

}  // namespace

absl::StatusOr<StudyAnswer> RunJobStudy(const StudyRequest& request, const Knowledge& knowledge,
                                        const StudyControl& control) {
  RETURN_IF_ERROR(CheckRequest(request, control));
  ASSIGN_OR_RETURN(const Problem problem, ResolveProblem(request.question, knowledge));
  RETURN_IF_ERROR(RequireOnePool(problem));
  ASSIGN_OR_RETURN(const JobPlanner planner, MakeJobPlanner(*request.trials, problem));
  // A study that is stopped before it begins has but a job to end.
  absl::StatusOr<StudyAnswer> answer = absl::CancelledError("cancelled before it began again");
  if (!control.cancel.stop_requested()) answer = Measure(request, knowledge, planner, control);
  const bool is_cancelled = control.cancel.stop_requested() && !control.leave.stop_requested();
  if (is_cancelled) EndJobLeft(*request.trials, problem, control.trials->attempts);
  return answer;
}

}  // namespace meshwright
