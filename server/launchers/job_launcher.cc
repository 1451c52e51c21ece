#include "server/launchers/job_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "search_space/status.h"

namespace meshwright {
namespace {

// So many trials in a row that fail for the site's reasons end the study: the next would too.
constexpr int kMostSiteFailures = 3;

}  // namespace

// The trial that runs, and the newest attempt at it.
struct JobLauncher::Trial {
  TrialJob job = {};
  OpenAttempt attempt = {};
  JobState noted = JobState::kUnknown;  // in the journal
  Clock::time_point begin_time = {};    // of the attempt
  std::optional<Clock::time_point> running_since = {};
  std::optional<Clock::time_point> unknown_since = {};
  std::optional<Clock::time_point> ended_since = {};
  std::optional<Clock::time_point> silent_since = {};
  Clock::time_point next_poll = {};
  std::optional<std::string> refusal = {};        // of the engine, in its words
  std::optional<FailureClass> cancelled_as = {};  // why we asked for its end
  // Of all attempts.
  std::vector<FailureClass> failures = {};
  std::vector<std::string> excluded_nodes = {};
  Seconds time = Seconds(0);
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
  trial_->begin_time = Clock::now();
  trial_->attempt = std::move(attempt);
  // What an earlier process began is looked for first.
  return trial_->attempt.is_adopted ? absl::OkStatus() : SubmitAttempt();
}

absl::Status JobLauncher::SubmitAttempt() {
  Trial& trial = *trial_;
  ASSIGN_OR_RETURN(JobSpec spec, options_.make_job(trial.job.plan, trial.attempt));
  spec.attempt_id = trial.attempt.id;
  spec.folder = options_.folder;
  spec.excluded_nodes = trial.excluded_nodes;
  auto external_id = engine_->Submit(spec);
  if (external_id.ok()) {
    trial.attempt.external_id = *std::move(external_id);
    return options_.journal.update(AttemptState::kSubmitted, trial.attempt.external_id);
  }
  if (absl::IsFailedPrecondition(external_id.status())) {
    trial.refusal = std::string(external_id.status().message());
    return absl::OkStatus();
  }
  // Whether it has come to the engine shows when it is looked for; else it counts as lost.
  return absl::IsUnavailable(external_id.status()) || absl::IsDeadlineExceeded(external_id.status())
             ? absl::OkStatus()
             : external_id.status();
}

absl::StatusOr<std::optional<FinishedTrial>> JobLauncher::Wait(Seconds limit) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  while (trial_ != nullptr) {
    if (Clock::now() >= trial_->next_poll) {
      trial_->next_poll =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.poll_interval);
      ASSIGN_OR_RETURN(std::optional<FinishedTrial> finished, Look());
      if (finished.has_value()) {
        trial_.reset();
        return finished;
      }
    }
    if (Clock::now() >= end) break;
    std::this_thread::sleep_until(std::min(end, trial_->next_poll));
  }
  return std::nullopt;
}

void JobLauncher::Cancel(int id) {
  if (trial_ == nullptr || trial_->job.id != id) return;
  trial_->cancelled_as = FailureClass::kCancelled;
  trial_->next_poll = {};
}

absl::StatusOr<std::optional<FinishedTrial>> JobLauncher::Look() {
  Trial& trial = *trial_;
  if (trial.refusal.has_value()) {
    return Fail(FailureClass::kRefused, {.log_tail = *trial.refusal});
  }
  const JobHandle handle = Handle();
  // Asking again for its end does no harm, and an engine may have missed it.
  if (trial.cancelled_as.has_value()) {
    if (absl::Status asked = engine_->Cancel(handle); !asked.ok() && !absl::IsUnavailable(asked)) {
      return asked;
    }
  }
  const auto polled = engine_->Poll({&handle, 1});
  if (polled.ok()) {
    trial.silent_since.reset();
    return Judge(polled->front());
  }
  trial.silent_since = trial.silent_since.value_or(Clock::now());
  if (Clock::now() - *trial.silent_since < options_.silence_limit) return std::nullopt;
  return polled.status();
}

absl::StatusOr<std::optional<FinishedTrial>> JobLauncher::Judge(const JobStatus& status) {
  Trial& trial = *trial_;
  const Clock::time_point now = Clock::now();
  if (status.state != JobState::kUnknown) {
    trial.unknown_since.reset();
    RETURN_IF_ERROR(NoteState(status));
  }
  switch (status.state) {
    case JobState::kUnknown:
      trial.unknown_since = trial.unknown_since.value_or(now);
      // A job that its engine has forgotten may have left a result.
      if (trial.cancelled_as.has_value() || now - *trial.unknown_since >= options_.lost_limit) {
        return Collect(status);
      }
      return std::nullopt;
    case JobState::kPending:
      if (now - trial.begin_time >= options_.queue_limit && !trial.cancelled_as.has_value()) {
        trial.cancelled_as = FailureClass::kQueueTimeout;
      }
      return std::nullopt;
    case JobState::kRunning:
      trial.running_since = trial.running_since.value_or(now);
      return std::nullopt;
    case JobState::kEnded:
      return Collect(status);
  }
  std::abort();
}

absl::Status JobLauncher::NoteState(const JobStatus& status) {
  Trial& trial = *trial_;
  const bool is_running = status.state == JobState::kRunning;
  const JobState state = is_running ? JobState::kRunning : JobState::kPending;
  if (status.state == JobState::kEnded || trial.noted >= state) return absl::OkStatus();
  trial.noted = state;
  trial.attempt.external_id = status.external_id;
  return options_.journal.update(is_running ? AttemptState::kRunning : AttemptState::kSubmitted,
                                 status.external_id);
}

absl::StatusOr<std::optional<FinishedTrial>> JobLauncher::Collect(const JobStatus& status) {
  Trial& trial = *trial_;
  const Clock::time_point now = Clock::now();
  const auto read = ReadAttemptResult(options_.folder, trial.attempt.id);
  const bool has_result = read.ok() && read->has_value() && (*read)->token == trial.attempt.token;
  // A file of another node may show a moment after the job has ended.
  trial.ended_since = trial.ended_since.value_or(now);
  const bool is_settled = now - *trial.ended_since >= options_.collect_limit;
  if (!has_result && !trial.cancelled_as.has_value() && !is_settled) return std::nullopt;

  AttemptReport report;
  if (trial.running_since.has_value()) report.time = now - *trial.running_since;
  trial.time += report.time;
  if (!read.ok()) report.log_tail = std::string(read.status().message());
  if (has_result) {
    report.log_head = (*read)->log_head;
    report.log_tail = (*read)->log_tail;
    if ((*read)->run.has_value()) return Finish(*(*read)->run, report);
  }
  // What the job says of itself is nearer to the cause than what its engine says, unless it was
  // only ended.
  FailureClass failure = status.end.has_value() ? FailureOf(*status.end) : FailureClass::kLost;
  if (has_result && (*read)->failure != FailureClass::kCancelled) failure = *(*read)->failure;
  if (PolicyOf(failure).excludes_node) {
    trial.excluded_nodes.insert(trial.excluded_nodes.end(), status.nodes.begin(),
                                status.nodes.end());
  }
  return Fail(trial.cancelled_as.value_or(failure), std::move(report));
}

absl::StatusOr<std::optional<FinishedTrial>> JobLauncher::Fail(FailureClass failure,
                                                               AttemptReport report) {
  Trial& trial = *trial_;
  trial.failures.push_back(failure);
  report.failure_class = std::string(Word(failure));
  if (IsRetried(trial.failures)) {
    Trial next = {.job = trial.job,
                  .begin_time = Clock::now(),
                  .failures = std::move(trial.failures),
                  .excluded_nodes = std::move(trial.excluded_nodes),
                  .time = trial.time};
    ASSIGN_OR_RETURN(next.attempt, options_.journal.again(report));
    *trial_ = std::move(next);
    RETURN_IF_ERROR(SubmitAttempt());
    return std::nullopt;
  }
  const FailurePolicy& policy = PolicyOf(failure);
  site_failures_ = policy.is_of_site ? site_failures_ + 1 : 0;
  if (site_failures_ >= kMostSiteFailures) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format("{} trials in a row could not be run, the last "
                                                  "one as {}: {}",
                                                  site_failures_, Word(failure), report.log_tail)),
        "SITE_FAILURE");
  }
  return Finish(OutcomeOf(policy.outcome, Seconds(0), std::nullopt), report);
}

FinishedTrial JobLauncher::Finish(TrialOutcome outcome, const AttemptReport& report) {
  if (report.failure_class.empty()) site_failures_ = 0;
  if (options_.journal.report) options_.journal.report(report);
  return {.id = trial_->job.id, .outcome = outcome, .time = trial_->time};
}

}  // namespace meshwright
