#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/launchers/jobs/attempt_end.h"
#include "server/launchers/jobs/attempt_result.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/tuner/question/attempt_journal.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/launcher.h"

namespace meshwright {

// Default of JobLauncherOptions::lost_limit.
inline constexpr Seconds kLostLimit(60);

// The clock by which a launcher polls and measures its limits; a test moves one of its own.
struct LauncherClock {
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  std::function<void(std::chrono::steady_clock::time_point)> sleep_until =
      [](std::chrono::steady_clock::time_point time) { std::this_thread::sleep_until(time); };
};

struct JobLauncherOptions {
  // Makes the job that measures a plan; the launcher sets its attempt_id and folder.
  std::function<absl::StatusOr<JobSpec>(const ParallelPlan& plan, const OpenAttempt& attempt,
                                        Seconds time_limit)>
      make_job = {};
  Seconds time_limit = Seconds(1800);  // limit of one attempt
  Seconds least_step = Seconds(0);     // the devices' nominal peak allows no shorter one
  AttemptJournal journal = {};
  std::string folder = {};  // absolute, the same on every node; results are read from it
  // Called when the engine says something new about the job of a trial, such as "slurm job 17
  // pending: Resources".
  std::function<void(int trial_id, const std::string& what)> on_status = {};
  Seconds poll_interval = Seconds(5);
  Seconds queue_limit = Seconds(86400);
  // The time for which an engine may not know a job that was submitted, or that an earlier process
  // meant to submit.
  Seconds lost_limit = kLostLimit;
  // The time that the result of an ended job may take to appear.
  Seconds collect_limit = Seconds(10);
  // The time for which an engine may not answer: maintenance of a scheduler is waited for.
  Seconds silence_limit = Seconds(4 * 3600);
  // The same for an engine that has never answered: there may be none.
  Seconds first_limit = Seconds(600);
  LauncherClock clock = {};
};

// Runs plans as jobs of an engine, one trial at a time: submits and polls, collects what the
// harness wrote, retries failures that are not the plan's fault (attempt_end.h), and resumes what
// an earlier process left running. Every step is in the journal before anything relies on it.
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
  // Returns the limit of the next attempt: its own, or what is left of the budgets.
  [[nodiscard]] Seconds TimeLimit() const;
  void SetTimeLimit();
  // Polls the engine once and returns the trial if it has finished.
  absl::StatusOr<std::optional<FinishedTrial>> Look();
  absl::StatusOr<std::optional<FinishedTrial>> Judge(const JobStatus& status);
  [[nodiscard]] Seconds PollPause() const;
  // Does the same while the engine does not answer.
  absl::StatusOr<std::optional<FinishedTrial>> LookPastSilence(const absl::Status& silence);
  absl::StatusOr<std::optional<FinishedTrial>> Collect(const JobStatus& status);
  // Returns how long an ended job ran, or nullopt if nobody knows; `of_job` is the job's own
  // figure.
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
  std::unique_ptr<Trial> trial_;  // the running one
  int site_failures_ = 0;         // in a row
  bool has_answered_ = false;     // the engine has answered once
};

}  // namespace meshwright
