#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/launchers/jobs/attempt_end.h"
#include "server/launchers/jobs/attempt_result.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/attempt_journal.h"
#include "server/tuner/trials/launcher.h"

namespace meshwright {

struct JobLauncherOptions {
  // The job that measures a plan; its attempt_id and folder are set by the launcher.
  std::function<absl::StatusOr<JobSpec>(const ParallelPlan& plan, const OpenAttempt& attempt,
                                        Seconds time_limit)>
      make_job = {};
  Seconds time_limit = Seconds(1800);  // of an attempt
  Seconds least_step = Seconds(0);     // the devices' nominal peak allows no shorter one
  AttemptJournal journal = {};
  std::string folder = {};  // absolute, the same on every node: results are read from it
  // Told when it changes: what the engine says of the job of a trial, "slurm job 17 pending:
  // Resources".
  std::function<void(int trial_id, const std::string& what)> on_status = {};
  Seconds poll_interval = Seconds(5);
  Seconds queue_limit = Seconds(86400);
  // For which an engine may not know a job that was submitted, or that an earlier process meant to
  // submit.
  Seconds lost_limit = Seconds(60);
  // For which the result of a job that has ended may not be seen.
  Seconds collect_limit = Seconds(10);
  // For which an engine may not answer at all: maintenance of a scheduler is waited for.
  Seconds silence_limit = Seconds(4 * 3600);
  // The same of one that has not answered once: it may not be there at all.
  Seconds first_limit = Seconds(600);
};

// Runs plans as jobs of an engine: submits, watches, collects what the harness wrote, tries again
// what was not the plan's fault (attempt_end.h), and takes up what an earlier process left running.
// Every step is in the journal before it is relied on. One trial at a time.
class JobLauncher final : public Launcher {
 public:
  JobLauncher(std::unique_ptr<JobEngine> engine, JobLauncherOptions options);
  ~JobLauncher() override;

  absl::Status Submit(const TrialJob& job) override;
  absl::StatusOr<std::optional<FinishedTrial>> Wait(Seconds limit) override;
  void Cancel(int id) override;
  [[nodiscard]] bool OutlivesProcess() const override { return true; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Trial;

  absl::Status SubmitAttempt();
  // Of the next attempt: its own, or what is left of the budgets.
  [[nodiscard]] Seconds TimeLimit() const;
  void SetTimeLimit();
  // What has become of the trial; nothing when it goes on.
  absl::StatusOr<std::optional<FinishedTrial>> Look();
  absl::StatusOr<std::optional<FinishedTrial>> Judge(const JobStatus& status);
  [[nodiscard]] Seconds PollPause() const;
  // While the engine does not answer.
  absl::StatusOr<std::optional<FinishedTrial>> LookPastSilence(const absl::Status& silence);
  absl::StatusOr<std::optional<FinishedTrial>> Collect(const JobStatus& status);
  // What a job that has ended used; `of_job` is its own word. Nothing where nobody knows.
  [[nodiscard]] std::optional<Seconds> TimeUsed(const JobStatus& status,
                                                std::optional<Seconds> of_job,
                                                std::chrono::steady_clock::time_point now) const;
  absl::StatusOr<std::optional<FinishedTrial>> Fail(FailureClass failure, AttemptReport report);
  absl::Status TryAgain(const AttemptReport& report);
  [[nodiscard]] bool IsMeasured() const;
  absl::Status NoteState(const JobStatus& status);
  void Tell(const JobStatus& status);
  void TellText(std::string what);
  [[nodiscard]] FinishedTrial Finish(TrialOutcome outcome, const AttemptReport& report);
  [[nodiscard]] JobHandle Handle() const;

  const std::unique_ptr<JobEngine> engine_;
  const JobLauncherOptions options_;
  std::unique_ptr<Trial> trial_;  // that runs
  int site_failures_ = 0;         // trials in a row
  bool has_answered_ = false;     // the engine
};

}  // namespace meshwright
