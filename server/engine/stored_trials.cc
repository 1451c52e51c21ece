#include "server/engine/stored_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "recorder/history_records.h"
#include "recorder/page_token.h"
#include "recorder/records.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/engine/journal_events.h"
#include "server/engine/measurement.h"
#include "server/engine/wall_clock.h"
#include "server/tuner/question/attempt_journal.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/trial.h"

namespace meshwright {
namespace {

absl::StatusOr<ParallelPlan> PlanOf(const TrialRecord& trial) {
  std::optional<ParallelPlan> plan = ParsePlanKey(trial.plan_key);
  if (plan.has_value()) return *std::move(plan);
  return WithReason(absl::DataLossError(fmt::format("the plan of trial {} of study '{}' cannot be "
                                                    "read: {}",
                                                    trial.number, trial.study_id, trial.plan_key)),
                    "STORE_CORRUPT");
}

// Returns the message of a failure; empty for an attempt that was measured.
std::string MessageOf(const AttemptRecord& attempt) {
  return attempt.failure_class.empty() ? "" : attempt.message;
}

absl::StatusOr<TriedPlan> TriedOf(const Recorder& recorder, const TrialRecord& trial) {
  ASSIGN_OR_RETURN(ParallelPlan plan, PlanOf(trial));
  ASSIGN_OR_RETURN(const std::vector<AttemptRecord> attempts,
                   recorder.ListAttempts(trial.study_id, trial.number));
  return TriedPlan{
      .plan = std::move(plan),
      .outcome = TrialOutcomeOf(trial.outcome.value_or(Outcome::kCancelled),
                                trial.step_time.value_or(Seconds(0)), trial.peak_memory),
      .expected_step_time = trial.expected_step_time,
      .success_probability = trial.success_probability,
      .device_time = trial.device_time,
      .failure_class = attempts.back().failure_class,
      .failure_message = MessageOf(attempts.back()),
      .suspect_reasons = attempts.back().quality.suspect_reasons,
      .environment_digest = attempts.back().quality.environment_digest};
}

EventRecord TrialEvent(const std::string& study_id, int number, std::int64_t time_ms) {
  return {.study_id = study_id,
          .time_ms = time_ms,
          .kind = kTrialEventKind,
          .payload = std::to_string(number)};
}

}  // namespace

StoredTrials::StoredTrials(StoredTrialsOptions options) : options_(std::move(options)) {
  journal_.learnt = [this](const std::optional<CalibrationReport>& report) {
    return Learnt(report);
  };
  journal_.begin = [this](const ExpectedTrial& expected) { return Begin(expected); };
  journal_.end = [this](int number, const TriedPlan& tried) { return End(number, tried); };
  journal_.attempts = Attempts();
}

AttemptJournal StoredTrials::Attempts() {
  return {.newest = [this]() -> absl::StatusOr<OpenAttempt> {
            if (options_.may_act) RETURN_IF_ERROR(options_.may_act());
            return Newest();
          },
          .update =
              [this](AttemptState state, const std::string& external_id,
                     const std::vector<std::string>& nodes) {
                return Update(state, external_id, nodes);
              },
          .again = [this](const AttemptReport& report) { return Again(report); },
          .report = [this](const AttemptReport& report) { report_ = report; }};
}

absl::StatusOr<std::unique_ptr<StoredTrials>> StoredTrials::Open(StoredTrialsOptions options) {
  std::unique_ptr<StoredTrials> trials(new StoredTrials(std::move(options)));
  RETURN_IF_ERROR(trials->options_.store.read(
      [&](const Recorder& recorder) { return trials->Load(recorder); }));
  return trials;
}

absl::Status StoredTrials::Load(const Recorder& recorder) {
  std::string page_token;
  do {
    ASSIGN_OR_RETURN(const TrialPage page,
                     recorder.ListTrials({.study_id = options_.study_id}, TrialOrder::kNumber,
                                         kMaxPageSize, page_token));
    for (const TrialRecord& trial : page.trials) {
      if (trial.state == TrialState::kEnded) {
        ASSIGN_OR_RETURN(TriedPlan tried, TriedOf(recorder, trial));
        journal_.ended.push_back(std::move(tried));
        continue;
      }
      OpenTrial open = {.number = trial.number};
      ASSIGN_OR_RETURN(open.plan, PlanOf(trial));
      ASSIGN_OR_RETURN(open.attempts, recorder.ListAttempts(trial.study_id, trial.number));
      waiting_.push_back(std::move(open));
    }
    page_token = page.next_page_token;
  } while (!page_token.empty());
  if (waiting_.empty()) return absl::OkStatus();
  // A job that may still run goes first.
  const auto first = std::ranges::find_if(
      waiting_, [this](const OpenTrial& trial) { return HasAttemptLeft(trial); });
  TakeUp(first == waiting_.end() ? waiting_.begin() : first);
  for (const OpenTrial& trial : waiting_) journal_.again.push_back(trial.plan);
  return absl::OkStatus();
}

// A table that stands in for a cluster runs nothing that could have gone on.
bool StoredTrials::HasAttemptLeft(const OpenTrial& trial) const {
  return RunsJobs(options_.launcher) && trial.attempts.back().state != AttemptState::kEnded;
}

// Keeps the open trial for later, because another one begins.
void StoredTrials::SetAside() {
  if (!open_number_.has_value()) return;
  if (is_adopted_) earlier_attempts_.push_back(std::move(attempt_));
  waiting_.push_back({.number = *open_number_,
                      .plan = *journal_.open,
                      .attempts = std::exchange(earlier_attempts_, {})});
  open_number_.reset();
}

void StoredTrials::TakeUp(std::vector<OpenTrial>::iterator trial) {
  OpenTrial taken = std::move(*trial);
  waiting_.erase(trial);
  SetAside();
  journal_.open = std::move(taken.plan);
  open_number_ = taken.number;
  is_adopted_ = HasAttemptLeft(taken);
  earlier_attempts_ = std::move(taken.attempts);
  if (!is_adopted_) return;
  attempt_ = std::move(earlier_attempts_.back());
  earlier_attempts_.pop_back();
}

absl::Status StoredTrials::Learnt(const std::optional<CalibrationReport>& report) {
  calibration_id_ = report.has_value() ? report->id : "";
  if (!report.has_value()) return absl::OkStatus();
  const CalibrationRecord record = CalibrationRecordOf(*report, options_.codec, NowMs());
  return options_.store.write(
      [&](Recorder& recorder) { return recorder.InsertCalibration(record); });
}

absl::Status StoredTrials::Begin(const ExpectedTrial& expected) {
  expected_ = expected;
  report_.reset();
  const bool is_other = !open_number_.has_value() || journal_.open != expected.plan;
  const auto waiting = std::ranges::find(waiting_, expected.plan, &OpenTrial::plan);
  if (is_other && waiting != waiting_.end()) TakeUp(waiting);
  const bool is_open = open_number_.has_value() && journal_.open == expected.plan;
  if (is_open && is_adopted_) return absl::OkStatus();
  if (is_open) {
    const AttemptIntent intent = {.study_id = options_.study_id,
                                  .trial_number = *open_number_,
                                  .launcher = options_.launcher,
                                  .time_ms = NowMs()};
    ASSIGN_OR_RETURN(attempt_, WriteTo(options_.store, [&](Recorder& recorder) {
                       return recorder.AddAttempt(intent);
                     }));
    return absl::OkStatus();
  }
  const PlanKey key = MakePlanKey(expected.plan);
  const TrialIntent intent = {.study_id = options_.study_id,
                              .purpose = expected.purpose,
                              .plan_key = key.text,
                              .plan_digest = key.digest,
                              .plan = options_.codec.encode_plan(expected.plan),
                              .expected_step_time = expected.step_time,
                              .success_probability = expected.success_probability,
                              .launcher = options_.launcher,
                              .time_ms = NowMs()};
  ASSIGN_OR_RETURN(BegunTrial begun, WriteTo(options_.store, [&](Recorder& recorder) {
                     return recorder.BeginTrial(intent);
                   }));
  SetAside();
  attempt_ = std::move(begun.attempt);
  is_adopted_ = false;  // the open trial is not adopted either if its plan is no longer a candidate
  earlier_attempts_.clear();
  open_number_ = begun.trial.number;
  journal_.open = expected.plan;
  return absl::OkStatus();
}

absl::Status StoredTrials::Update(AttemptState state, const std::string& external_id,
                                  const std::vector<std::string>& nodes) {
  const AttemptUpdate update = {.attempt_id = attempt_.id,
                                .fencing_token = attempt_.fencing_token,
                                .state = state,
                                .external_id = external_id,
                                .nodes = nodes,
                                .time_ms = NowMs()};
  return Save([&](Recorder& recorder) -> absl::Status {
    ASSIGN_OR_RETURN(attempt_, recorder.UpdateAttempt(update));
    return absl::OkStatus();
  });
}

absl::StatusOr<OpenAttempt> StoredTrials::Again(const AttemptReport& report) {
  const AttemptEnding ending = EndingOf(report, Outcome::kCancelled);
  AttemptRecord ended;
  AttemptRecord next;
  RETURN_IF_ERROR(Save([&](Recorder& recorder) -> absl::Status {
    ASSIGN_OR_RETURN(ended, recorder.FinishAttempt(ending));
    ASSIGN_OR_RETURN(next, recorder.AddAttempt({.study_id = options_.study_id,
                                                .trial_number = ended.trial_number,
                                                .launcher = options_.launcher,
                                                .time_ms = ending.time_ms}));
    return absl::OkStatus();
  }));
  earlier_attempts_.push_back(std::move(ended));
  attempt_ = std::move(next);
  is_adopted_ = false;
  return Newest();
}

OpenAttempt StoredTrials::Newest() const {
  OpenAttempt open = {.id = attempt_.id,
                      .token = attempt_.fencing_token,
                      .external_id = attempt_.external_id,
                      .is_adopted = is_adopted_,
                      .state = attempt_.state};
  if (attempt_.start_time_ms.has_value()) {
    open.time = Seconds(
        1e-3 * static_cast<double>(std::max<std::int64_t>(0, NowMs() - *attempt_.start_time_ms)));
  }
  for (const AttemptRecord& earlier : earlier_attempts_) {
    open.earlier.push_back({.failure_class = earlier.failure_class, .nodes = earlier.nodes});
    open.earlier_time += earlier.device_time / options_.device_count;
  }
  return open;
}

AttemptEnding StoredTrials::EndingOf(const AttemptReport& report, Outcome outcome) const {
  return {.attempt_id = attempt_.id,
          .fencing_token = attempt_.fencing_token,
          .outcome = outcome,
          .failure_class = report.failure_class,
          .message = report.message,
          .device_time = options_.device_count * report.time,
          .log_head = report.log_head,
          .log_tail = report.log_tail,
          .nodes = report.nodes,
          .quality = report.quality,
          .time_ms = NowMs()};
}

// Retries, because measurements are expensive.
absl::Status StoredTrials::Save(const StoreCall& save) const {
  absl::Status saved = options_.store.write(save);
  const auto goes_on = [&](int attempts) {
    if (saved.ok() || Reason(saved) == "STALE_LEASE") return false;
    return attempts < kSaveAttempts ||
           (absl::IsUnavailable(saved) && options_.is_patient && options_.is_patient());
  };
  for (int i = 1; goes_on(i); ++i) {
    std::this_thread::sleep_for(kSavePause);
    saved = options_.store.write(save);
  }
  return saved;
}

absl::Status StoredTrials::End(int number, const TriedPlan& tried) {
  AttemptEnding attempt = EndingOf(report_.value_or(AttemptReport()), OutcomeOf(tried.outcome));
  if (!report_.has_value()) attempt.device_time = tried.device_time;
  const bool is_cancelled = std::holds_alternative<Cancelled>(tried.outcome);
  is_adopted_ = false;
  // If a trial was cancelled because its study stops, a later process may start it again.
  if (is_cancelled && options_.cancel.stop_requested()) {
    return Save([&](Recorder& recorder) { return recorder.FinishAttempt(attempt).status(); });
  }
  const TrialEnding ending = EndingOf(attempt, open_number_.value_or(number), tried);
  bool is_new = false;
  RETURN_IF_ERROR(Save([&](Recorder& recorder) -> absl::Status {
    ASSIGN_OR_RETURN(const EndedTrial ended, recorder.FinishTrial(ending));
    is_new = ended.is_new;
    return absl::OkStatus();
  }));
  if (is_new && ending.measurement.has_value() && options_.on_measurement) {
    options_.on_measurement(*ending.measurement);
  }
  open_number_.reset();
  journal_.open.reset();
  return absl::OkStatus();
}

MeasurementRecord StoredTrials::MeasurementOf(const TriedPlan& tried, std::int64_t time_ms) const {
  const PlanKey key = MakePlanKey(tried.plan);
  const bool runs_jobs = RunsJobs(options_.launcher);
  MeasurementRecord measurement = {
      .source = runs_jobs ? MeasurementSource::kTrial : MeasurementSource::kReplay,
      .question = options_.question,
      .study_id = options_.study_id,
      .plan_key = key.text,
      .plan_digest = key.digest,
      .plan = options_.codec.encode_plan(tried.plan),
      .outcome = OutcomeOf(tried.outcome),
      .device_time = tried.device_time,
      .time_ms = time_ms};
  // No prediction is stored for a plan that runs again, because its time is known.
  if (expected_.purpose == TrialPurpose::kSearch) {
    measurement.expected = {.step_time = expected_.step_time,
                            .low = expected_.step_time_low,
                            .high = expected_.step_time_high,
                            .peak_memory = expected_.peak_memory,
                            .calibration_id = calibration_id_};
  }
  if (const Ran* ran = std::get_if<Ran>(&tried.outcome)) {
    measurement.step_time = ran->step_time;
    measurement.peak_memory = ran->peak_memory;
  }
  measurement.id = MeasurementId(measurement, attempt_.id);
  return measurement;
}

TrialEnding StoredTrials::EndingOf(const AttemptEnding& attempt, int number,
                                   const TriedPlan& tried) const {
  TrialEnding ending = {.study_id = options_.study_id,
                        .trial_number = number,
                        .attempt = attempt,
                        .events = {TrialEvent(options_.study_id, number, attempt.time_ms)}};
  if (const Ran* ran = std::get_if<Ran>(&tried.outcome)) {
    ending.step_time = ran->step_time;
    ending.peak_memory = ran->peak_memory;
  }
  // A trial that was stopped from outside is not a measurement.
  if (!std::holds_alternative<Cancelled>(tried.outcome)) {
    ending.measurement = MeasurementOf(tried, attempt.time_ms);
  }
  return ending;
}

bool HasJobLeft(const Recorder& recorder, const std::string& study_id) {
  std::string page_token;
  do {
    const auto open = recorder.ListTrials({.study_id = study_id, .state = TrialState::kOpen},
                                          TrialOrder::kNumber, kMaxPageSize, page_token);
    if (!open.ok()) return false;
    for (const TrialRecord& trial : open->trials) {
      const auto attempts = recorder.ListAttempts(study_id, trial.number);
      const bool has_left = attempts.ok() && attempts->back().state != AttemptState::kEnded &&
                            RunsJobs(attempts->back().launcher);
      if (has_left) return true;
    }
    page_token = open->next_page_token;
  } while (!page_token.empty());
  return false;
}

namespace {

// Ends an open trial as its last attempt has ended; without one, as cancelled.
absl::Status CancelTrial(Recorder& recorder, const TrialRecord& trial, std::int64_t time_ms) {
  ASSIGN_OR_RETURN(const std::vector<AttemptRecord> attempts,
                   recorder.ListAttempts(trial.study_id, trial.number));
  const AttemptRecord& last = attempts.back();
  const TrialEnding ending = {.study_id = trial.study_id,
                              .trial_number = trial.number,
                              .attempt = {.attempt_id = last.id,
                                          .fencing_token = last.fencing_token,
                                          .outcome = last.outcome.value_or(Outcome::kCancelled),
                                          .failure_class = last.failure_class,
                                          .message = last.message,
                                          .device_time = last.device_time,
                                          .log_head = last.log_head,
                                          .log_tail = last.log_tail,
                                          .nodes = last.nodes,
                                          .quality = last.quality,
                                          .time_ms = last.end_time_ms.value_or(time_ms)},
                              .events = {TrialEvent(trial.study_id, trial.number, time_ms)}};
  return recorder.FinishTrial(ending).status();
}

}  // namespace

absl::Status CancelOpenTrials(Recorder& recorder, std::string_view study_id, std::int64_t time_ms) {
  while (true) {
    ASSIGN_OR_RETURN(
        const TrialPage open,
        recorder.ListTrials({.study_id = std::string(study_id), .state = TrialState::kOpen},
                            TrialOrder::kNumber, kMaxPageSize, ""));
    if (open.trials.empty()) return absl::OkStatus();
    for (const TrialRecord& trial : open.trials) {
      RETURN_IF_ERROR(CancelTrial(recorder, trial, time_ms));
    }
  }
}

absl::StatusOr<StudyRecord> EndStudy(Recorder& recorder, const StudyEnding& ending) {
  RETURN_IF_ERROR(CancelOpenTrials(recorder, ending.study_id, NowMs()));
  return recorder.FinishStudy(ending);
}

}  // namespace meshwright
