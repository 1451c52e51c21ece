#include "server/launchers/jobs/job_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/run_limits.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/harness_progress.h"

namespace meshwright {
namespace {

// After so many trials in a row that fail for reasons of the site, the study ends: the next would
// fail too.
constexpr int kMaxSiteFailures = 3;
constexpr Seconds kLeastTimeLimit(1);
constexpr Seconds kEndTime(120);  // at most, from a job's limit to its end
constexpr double kMaxPollPauses = 8;

// The form of texts from engines and programs, which go into the store and to terminals.
constexpr TextForm kEngineText = {.longest_bytes = 4000};

JobStatus Cleaned(JobStatus status) {
  status.external_id = CleanText(status.external_id, kEngineText);
  status.reason = CleanText(status.reason, kEngineText);
  for (std::string& node : status.nodes) node = CleanText(node, kEngineText);
  return status;
}

JobState StateOf(const OpenAttempt& attempt) {
  switch (attempt.state) {
    case AttemptState::kIntended:
      return JobState::kUnknown;
    case AttemptState::kSubmitted:
      return JobState::kPending;
    case AttemptState::kRunning:
    case AttemptState::kEnded:
      return JobState::kRunning;
  }
  std::abort();
}

// Returns why a run cannot have measured this, or nullopt if it can. A wrong unit would recur in
// every trial.
std::optional<std::string> MetricsMistake(const Ran& run, Seconds least_step) {
  if (const auto mistake = StepTimeMistake(run.step_time, least_step)) {
    return fmt::format("step_time_seconds = {}: check the unit of the job's metrics", *mistake);
  }
  if (!run.peak_memory.has_value()) return std::nullopt;
  const auto mistake = PeakMemoryMistake(*run.peak_memory);
  if (!mistake.has_value()) return std::nullopt;
  return fmt::format("peak_memory_bytes = {}: check the unit of the job's metrics", *mistake);
}

void Keep(const AttemptResult& result, AttemptReport& report) {
  report.message = result.message;
  report.log_head = result.log_head;
  report.log_tail = result.log_tail;
  report.quality = result.quality;
}

}  // namespace

// The running trial, and its newest attempt.
struct JobLauncher::Trial {
  TrialJob job = {};
  OpenAttempt attempt = {};
  JobState noted = JobState::kUnknown;  // as the journal has it
  Clock::time_point begin_time = {};    // when the attempt began
  std::optional<Clock::time_point> running_since = {};
  std::optional<Clock::time_point> unknown_since = {};
  std::optional<Clock::time_point> ended_since = {};
  std::optional<Clock::time_point> silent_since = {};
  Clock::time_point next_poll = {};
  std::optional<std::string> refusal = {};        // why the engine refused it, in its words
  std::optional<FailureClass> cancelled_as = {};  // why we cancelled it
  std::string told = {};                          // last given to on_status
  std::vector<std::string> nodes = {};            // as last told by the engine
  // These cover all attempts.
  std::vector<FailureClass> failures = {};
  std::vector<std::string> excluded_nodes = {};
  Seconds time = Seconds(0);
  Seconds time_limit = Seconds(0);  // limit of the newest attempt
  bool is_cut = false;              // the limit is the rest of the budgets

  // Notes a failure and returns true if it counts. A refusal after nodes were excluded does not:
  // too few nodes may be left, and the avoided nodes are better than none.
  bool Note(FailureClass failure, const std::vector<std::string>& ran_on) {
    if (failure == FailureClass::kRefused && !excluded_nodes.empty()) {
      excluded_nodes.clear();
      return false;
    }
    failures.push_back(failure);
    if (PolicyOf(failure).excludes_node) {
      excluded_nodes.insert(excluded_nodes.end(), ran_on.begin(), ran_on.end());
    }
    return true;
  }
};

JobLauncher::JobLauncher(std::unique_ptr<JobEngine> engine, JobLauncherOptions options)
    : engine_(std::move(engine)), options_(std::move(options)) {}

JobLauncher::~JobLauncher() = default;

JobHandle JobLauncher::Handle() const {
  return {.attempt_id = trial_->attempt.id,
          .external_id = trial_->attempt.external_id,
          .folder = options_.folder};
}

absl::Status JobLauncher::Submit(const TrialJob& job) {
  ASSIGN_OR_RETURN(OpenAttempt attempt, options_.journal.newest());
  trial_ = std::make_unique<Trial>();
  trial_->job = job;
  trial_->begin_time = options_.clock.now();
  trial_->noted = StateOf(attempt);
  trial_->time = attempt.earlier_time;
  for (const EarlierAttempt& earlier : attempt.earlier) {
    const auto failure = ParseChoice<FailureClass>(earlier.failure_class);
    if (failure.has_value()) trial_->Note(*failure, earlier.nodes);
  }
  if (trial_->noted == JobState::kRunning) {
    trial_->running_since =
        trial_->begin_time - std::chrono::duration_cast<Clock::duration>(attempt.time);
  }
  trial_->attempt = std::move(attempt);
  if (!trial_->attempt.is_adopted) return SubmitAttempt();
  // An attempt of an earlier process is looked for first.
  SetTimeLimit();
  has_answered_ |= trial_->noted != JobState::kUnknown;
  return absl::OkStatus();
}

Seconds JobLauncher::TimeLimit() const {
  const std::optional<Seconds>& left = trial_->job.time_left;
  if (!left.has_value()) return options_.time_limit;
  return std::min(options_.time_limit, *left - trial_->time);
}

void JobLauncher::SetTimeLimit() {
  trial_->time_limit = std::max(TimeLimit(), kLeastTimeLimit);
  trial_->is_cut = trial_->time_limit < options_.time_limit;
}

absl::Status JobLauncher::SubmitAttempt() {
  Trial& trial = *trial_;
  SetTimeLimit();
  ASSIGN_OR_RETURN(JobSpec spec,
                   options_.make_job(trial.job.plan, trial.attempt, trial.time_limit));
  spec.attempt_id = trial.attempt.id;
  spec.folder = options_.folder;
  spec.excluded_nodes = trial.excluded_nodes;
  auto external_id = engine_->Submit(spec);
  if (external_id.ok()) {
    has_answered_ = true;
    trial.attempt.external_id = *std::move(external_id);
    return options_.journal.update(AttemptState::kSubmitted, trial.attempt.external_id, {});
  }
  if (absl::IsFailedPrecondition(external_id.status())) {
    trial.refusal = std::string(external_id.status().message());
    return absl::OkStatus();
  }
  // Polling shows if the job has reached the engine; if not, it counts as lost.
  return absl::IsUnavailable(external_id.status()) || absl::IsDeadlineExceeded(external_id.status())
             ? absl::OkStatus()
             : external_id.status();
}

absl::StatusOr<std::optional<FinishedTrial>> JobLauncher::Wait(Seconds limit) {
  const auto end = options_.clock.now() + std::chrono::duration_cast<Clock::duration>(limit);
  while (trial_ != nullptr) {
    if (options_.clock.now() >= trial_->next_poll) {
      trial_->next_poll =
          options_.clock.now() + std::chrono::duration_cast<Clock::duration>(PollPause());
      absl::StatusOr<std::optional<FinishedTrial>> finished = Look();
      if (!finished.ok()) {
        // Nobody will poll this job any more, unless another server has taken the study over.
        if (Reason(finished.status()) != "STALE_LEASE") engine_->Cancel(Handle()).IgnoreError();
        return finished.status();
      }
      if (finished->has_value()) {
        trial_.reset();
        return *finished;
      }
    }
    if (options_.clock.now() >= end) break;
    options_.clock.sleep_until(std::min(end, trial_->next_poll));
  }
  return std::nullopt;
}

// Returns the pause until the next poll; an engine that does not answer is polled less and less
// often.
Seconds JobLauncher::PollPause() const {
  const Seconds usual = options_.poll_interval;
  if (!trial_->silent_since.has_value()) return usual;
  const Seconds silent = options_.clock.now() - *trial_->silent_since;
  return std::clamp(silent / 4, usual, kMaxPollPauses * usual);
}

void JobLauncher::Cancel(int id) {
  if (trial_ == nullptr || trial_->job.id != id) return;
  trial_->cancelled_as = FailureClass::kCancelled;
  trial_->next_poll = {};
}

absl::StatusOr<std::optional<FinishedTrial>> JobLauncher::Look() {
  Trial& trial = *trial_;
  // Another server may have the job by now, after this process was stopped for a while.
  RETURN_IF_ERROR(options_.journal.newest().status());
  if (trial.refusal.has_value()) {
    return Fail(FailureClass::kRefused, {.message = *trial.refusal});
  }
  const JobHandle handle = Handle();
  // Cancelling again does no harm, and an engine may have missed the first call. Poll tells if the
  // engine does not answer.
  if (trial.cancelled_as.has_value()) engine_->Cancel(handle).IgnoreError();
  const auto polled = engine_->Poll({&handle, 1});
  if (polled.ok()) {
    trial.silent_since.reset();
    has_answered_ = true;
    return Judge(Cleaned(polled->front()));
  }
  return LookPastSilence(polled.status());
}

// Looks for a result in the folder, which can be there even if the engine is silent.
absl::StatusOr<std::optional<FinishedTrial>> JobLauncher::LookPastSilence(
    const absl::Status& silence) {
  Trial& trial = *trial_;
  trial.silent_since = trial.silent_since.value_or(options_.clock.now());
  TellText(fmt::format("the engine does not answer: {}", std::string(silence.message())));
  const Seconds limit = has_answered_ ? options_.silence_limit
                                      : std::min(options_.silence_limit, options_.first_limit);
  const bool is_over = options_.clock.now() - *trial.silent_since >= limit;
  // The other processes of the job go on until the engine takes a cancel.
  if (IsMeasured() && (engine_->Cancel(Handle()).ok() || is_over)) {
    return Collect({.external_id = trial.attempt.external_id});
  }
  return is_over ? absl::StatusOr<std::optional<FinishedTrial>>(silence) : std::nullopt;
}

absl::StatusOr<std::optional<FinishedTrial>> JobLauncher::Judge(const JobStatus& status) {
  Trial& trial = *trial_;
  const Clock::time_point now = options_.clock.now();
  if (status.state != JobState::kUnknown) {
    trial.unknown_since.reset();
    RETURN_IF_ERROR(NoteState(status));
  }
  Tell(status);
  switch (status.state) {
    case JobState::kUnknown:
      trial.unknown_since = trial.unknown_since.value_or(now);
      // A job that its engine has forgotten may have left a result. One that the engine does not
      // know yet may still come, even if it was cancelled.
      if (now - *trial.unknown_since >= options_.lost_limit) return Collect(status);
      return std::nullopt;
    case JobState::kPending:
      trial.ended_since.reset();
      if (now - trial.begin_time >= options_.queue_limit && !trial.cancelled_as.has_value()) {
        trial.cancelled_as = FailureClass::kQueueTimeout;
      }
      return std::nullopt;
    case JobState::kRunning:
      trial.ended_since.reset();
      trial.running_since = trial.running_since.value_or(now);
      // Only the process that measures knows that it has seen enough; the others would go on.
      if (IsMeasured()) engine_->Cancel(Handle()).IgnoreError();  // repeated at the next poll
      return std::nullopt;
    case JobState::kEnded:
      return Collect(status);
  }
  std::abort();
}

bool JobLauncher::IsMeasured() const {
  const auto read = ReadAttemptResult(options_.folder, trial_->attempt.id);
  return read.ok() && read->has_value() && (*read)->run.has_value() &&
         (*read)->token == trial_->attempt.token;
}

absl::Status JobLauncher::NoteState(const JobStatus& status) {
  Trial& trial = *trial_;
  const bool is_running = status.state == JobState::kRunning;
  const JobState state = is_running ? JobState::kRunning : JobState::kPending;
  if (status.state == JobState::kEnded || trial.noted >= state) return absl::OkStatus();
  trial.noted = state;
  trial.nodes = status.nodes;
  trial.attempt.external_id = status.external_id;
  return options_.journal.update(is_running ? AttemptState::kRunning : AttemptState::kSubmitted,
                                 status.external_id, status.nodes);
}

void JobLauncher::Tell(const JobStatus& status) {
  std::string what = fmt::format("job {} {}", status.external_id, Word(status.state));
  if (!status.reason.empty()) what += fmt::format(": {}", status.reason);
  if (status.state == JobState::kRunning) {
    const auto progress =
        ReadHarnessProgress(options_.folder, trial_->attempt.id, trial_->attempt.token);
    if (progress.has_value()) what += fmt::format("; {}", progress->state);
  }
  TellText(std::move(what));
}

void JobLauncher::TellText(std::string what) {
  what = CleanText(what, kEngineText);
  if (!options_.on_status || what == trial_->told) return;
  trial_->told = std::move(what);
  options_.on_status(trial_->job.id, trial_->told);
}

// Returns how long the job ran. It may run while nobody polls it, and a silent engine does not tell
// when it ended; what the job itself says therefore comes before what was seen.
std::optional<Seconds> JobLauncher::TimeUsed(const JobStatus& status, std::optional<Seconds> of_job,
                                             Clock::time_point now) const {
  if (status.run_time.has_value()) return status.run_time;
  const bool was_told_of_end = status.end.has_value();
  if (of_job.has_value() && !was_told_of_end) return of_job;
  if (trial_->running_since.has_value()) return now - *trial_->running_since;
  return of_job;
}

absl::StatusOr<std::optional<FinishedTrial>> JobLauncher::Collect(const JobStatus& status) {
  Trial& trial = *trial_;
  const Clock::time_point now = options_.clock.now();
  const auto read = ReadAttemptResult(options_.folder, trial.attempt.id);
  const bool has_result = read.ok() && read->has_value() && (*read)->token == trial.attempt.token;
  // A file written on another node may appear a moment after the job has ended.
  trial.ended_since = trial.ended_since.value_or(now);
  const bool is_settled = now - *trial.ended_since >= options_.collect_limit;
  if (!has_result && !trial.cancelled_as.has_value() && !is_settled) return std::nullopt;

  AttemptReport report = {.nodes = status.nodes.empty() ? trial.nodes : status.nodes};
  const std::optional<Seconds> of_job = has_result ? (*read)->run_time : std::nullopt;
  const std::optional<Seconds> time = TimeUsed(status, of_job, now);
  report.time = std::min(time.value_or(Seconds(0)), trial.time_limit + kEndTime);
  trial.time += report.time;
  if (has_result && (*read)->run.has_value()) {
    Keep(**read, report);
    if (auto mistake = MetricsMistake(*(*read)->run, options_.least_step)) {
      report.message = *std::move(mistake);
      return Fail(FailureClass::kMetricsInvalid, std::move(report));
    }
    return Finish(*(*read)->run, report);
  }
  report.message = read.ok() ? status.reason : std::string(read.status().message());
  if (!has_result) {
    LogEnds ends = ReadLogEnds(options_.folder, trial.attempt.id);
    report.log_head = std::move(ends.head);
    report.log_tail = std::move(ends.tail);
  }
  // The job itself knows the cause better than its engine, unless the engine ended it because
  // another process had failed.
  FailureClass failure = status.end.has_value() ? FailureOf(*status.end) : FailureClass::kLost;
  const auto of_rank = ReadRankFailure(options_.folder, trial.attempt.id, trial.attempt.token);
  const bool is_told = has_result && (*read)->failure != FailureClass::kCancelled;
  if (has_result) Keep(**read, report);
  // The engine knows who ended it.
  if (has_result && !is_told && !status.reason.empty()) report.message = status.reason;
  if (is_told) failure = *(*read)->failure;
  // If another rank is gone, the rank that measures only waits for it in vain.
  const bool is_consequence =
      !is_told || failure == FailureClass::kHang || failure == FailureClass::kTimeout;
  if (is_consequence && of_rank.has_value()) {
    Keep(*of_rank, report);
    failure = *of_rank->failure;
  }
  return Fail(trial.cancelled_as.value_or(failure), std::move(report));
}

absl::StatusOr<std::optional<FinishedTrial>> JobLauncher::Fail(FailureClass failure,
                                                               AttemptReport report) {
  Trial& trial = *trial_;
  if (failure == FailureClass::kTimeout && trial.is_cut) {
    failure = FailureClass::kBudget;
    report.message =
        fmt::format("ended after {:.0f} s, when the time budget was used up", report.time.count());
  }
  report.failure_class = std::string(Word(failure));
  report.message = CleanText(report.message, kEngineText);
  const bool counts = trial.Note(failure, report.nodes);
  if (!counts || IsRetried(trial.failures)) {
    if (TimeLimit() > Seconds(0)) {
      RETURN_IF_ERROR(TryAgain(report));
      return std::nullopt;
    }
    // A failure that would have been retried has shown nothing yet.
    report.message = fmt::format("{}, and no time is left for another attempt: {}", Word(failure),
                                 report.message);
    failure = FailureClass::kBudget;
    report.failure_class = std::string(Word(failure));
  }
  const FailurePolicy& policy = PolicyOf(failure);
  site_failures_ = policy.is_of_site ? site_failures_ + 1 : 0;
  if (site_failures_ >= kMaxSiteFailures) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format("{} trials in a row could not be run; the last "
                                                  "failed with {}: {}",
                                                  site_failures_, Word(failure), report.message)),
        "SITE_FAILURE");
  }
  return Finish(TrialOutcomeOf(policy.outcome, Seconds(0), std::nullopt), report);
}

absl::Status JobLauncher::TryAgain(const AttemptReport& report) {
  Trial& trial = *trial_;
  // A lost job may only be late.
  engine_->Cancel(Handle()).IgnoreError();
  ASSIGN_OR_RETURN(OpenAttempt attempt, options_.journal.again(report));
  *trial_ = {.job = trial.job,
             .attempt = std::move(attempt),
             .begin_time = options_.clock.now(),
             .failures = trial.failures,
             .excluded_nodes = trial.excluded_nodes,
             .time = trial.time};
  return SubmitAttempt();
}

FinishedTrial JobLauncher::Finish(TrialOutcome outcome, const AttemptReport& report) {
  if (report.failure_class.empty()) site_failures_ = 0;
  if (options_.journal.report) options_.journal.report(report);
  return {.id = trial_->job.id,
          .outcome = outcome,
          .time = trial_->time,
          .failure_class = report.failure_class,
          .failure_message = report.failure_class.empty() ? "" : report.message,
          .suspect_reasons = report.quality.suspect_reasons,
          .environment_digest = report.quality.environment_digest};
}

}  // namespace meshwright
