#include "server/engine/engine_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "recorder/history_records.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "server/engine/journal_events.h"
#include "server/engine/measurement.h"
#include "server/engine/stored_trials.h"
#include "server/engine/study_id.h"
#include "server/engine/study_record.h"
#include "server/engine/wall_clock.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

// Progress is written to the journal every 200 ms, and later every hundredth of the study's age, so
// that the journal of a day-long study stays at about a thousand events. After 20 s it grows with
// the logarithm of the age: 100 x ln(86400 / 20) = 837 events follow the first 100.
constexpr std::chrono::milliseconds kProgressInterval(200);
constexpr int kIntervalsPerAge = 100;

}  // namespace

// The caller publishes the study.
absl::StatusOr<StudyRecord> EngineState::Finish(const StudyEnding& ending) const {
  return WriteTo(access, [&](Recorder& recorder) { return EndStudy(recorder, ending); });
}

absl::StatusOr<InsertedStudy> EngineState::Insert(StudyRecord record,
                                                  const CreateStudyOptions& options) const {
  record.owner = owner;
  record.request_id = options.request_id;
  record.request_hash += options.study_id.value_or("");  // it is part of what the client asked for
  record.create_time_ms = NowMs();
  const auto insert = [&record](Recorder& recorder) { return recorder.InsertStudy(record); };
  record.id = options.study_id.value_or("");
  if (options.study_id.has_value()) return WriteTo(access, insert);
  for (;;) {
    record.id = NewStudyId();
    auto inserted = WriteTo(access, insert);
    if (!absl::IsAlreadyExists(inserted.status())) return inserted;
  }
}

void EngineState::Run(Lane lane, const std::stop_token& stop) {
  while (const auto id = NextStudy(lane, stop)) RunOne(*id);
}

std::optional<std::string> EngineState::NextStudy(Lane lane, const std::stop_token& stop) {
  std::unique_lock lock(mutex);
  changed.wait(lock, stop, [this, lane] { return !studies.IsEmpty(lane); });
  if (is_stopping || studies.IsEmpty(lane)) return std::nullopt;
  return studies.Begin(lane);
}

absl::StatusOr<ResolvedStudy> EngineState::Begin(const std::string& id) {
  ASSIGN_OR_RETURN(const StudyRecord record, ReadFrom(access, [&](const Recorder& recorder) {
                     return recorder.GetStudy(id);
                   }));
  ASSIGN_OR_RETURN(ResolvedStudy study, codec.decode_request(record.question));
  {
    const std::lock_guard lock(mutex);
    const bool is_cancelled = studies.Running(id)->is_cancelled_by_user;
    RETURN_IF_ERROR(store.Write(
        [&](Recorder& recorder) { return SetRunning(recorder, id, is_cancelled, study.request); }));
  }
  followers.Publish(id);
  return study;
}

absl::Status EngineState::SetRunning(Recorder& recorder, const std::string& id, bool is_cancelled,
                                     StudyRequest& request) const {
  const auto updated = recorder.UpdateStudy(
      {.study_id = id, .state = StudyState::kRunning, .time_ms = NowMs(), .owner = owner});
  // A study that was cancelled after it left the queue goes on: its stop token ends it at once.
  if (!updated.ok() && !is_cancelled) return updated.status();
  // The history that a study may learn from is fixed when it first starts.
  ASSIGN_OR_RETURN(const std::int64_t last, recorder.LastMeasurementSequence());
  ASSIGN_OR_RETURN(
      request.history_sequence,
      recorder.SetStudyHistory(id, std::min(last, request.history_sequence.value_or(last))));
  return absl::OkStatus();
}

HistorySource EngineState::HistoryUpTo(std::int64_t sequence) {
  return {.sequence = sequence, .read = [this, sequence](const Problem& problem) {
            return history.Read(problem, sequence);
          }};
}

void EngineState::RunOne(const std::string& id) {
  const auto study = Begin(id);
  if (!study.ok()) {
    Conclude(id, FailedEnding(id, study.status()), /*was_cut=*/false);
    return;
  }
  std::optional<Progress> unsaved_progress;
  auto answer = Answer(id, *study, unsaved_progress);
  {
    const std::lock_guard lock(mutex);
    if (const auto& failure = studies.Running(id)->failure) answer = *failure;
  }
  StudyEnding ending = EndingOf(id, answer, codec, NowMs());
  if (unsaved_progress.has_value()) {
    ending.events.push_back(ProgressEvent(id, *unsaved_progress));
  }
  if (const auto calibration = CalibrationOf(answer, codec, NowMs())) {
    Report(id, store.Write(
                   [&](Recorder& recorder) { return recorder.InsertCalibration(*calibration); }));
  }
  Conclude(id, std::move(ending), WasCut(answer));
}

absl::StatusOr<StudyAnswer> EngineState::Answer(const std::string& id, const ResolvedStudy& study,
                                                std::optional<Progress>& unsaved_progress) {
  std::stop_token cancel;
  std::stop_token leave;
  {
    const std::lock_guard lock(mutex);
    cancel = studies.Running(id)->cancel.get_token();
    leave = studies.Running(id)->leave.get_token();
  }
  const Clock::time_point start = hooks.now();
  std::optional<Clock::time_point> last;
  const auto on_progress = [&](const Progress& progress) {
    const Clock::time_point now = hooks.now();
    const auto interval =
        std::max<Clock::duration>(kProgressInterval, (now - start) / kIntervalsPerAge);
    if (last.has_value() && now - *last < interval) {
      unsaved_progress = progress;
      return;
    }
    last = now;
    unsaved_progress.reset();
    AppendProgress(id, progress);
  };
  // The thread must outlive any study, even one that asks for more memory than there is.
  try {
    return Try(id, study,
               {.cancel = cancel,
                .leave = leave,
                .on_progress = on_progress,
                .history = HistoryUpTo(study.request.history_sequence.value_or(0))});
  } catch (const std::exception& e) {
    return absl::InternalError(fmt::format("the study failed: {}", e.what()));
  }
}

absl::StatusOr<StudyAnswer> EngineState::Try(const std::string& id, const ResolvedStudy& study,
                                             StudyControl control) {
  const auto& [request, problem, baseline, replay] = study;
  if (!request.trials.has_value()) return hooks.run(study, knowledge, control);
  const auto write = [this, &id](const StoreCall& call) {
    absl::Status done = store.Write(call);
    followers.Publish(id);
    return done;
  };
  ASSIGN_OR_RETURN(
      const std::unique_ptr<StoredTrials> trials,
      StoredTrials::Open({.study_id = id,
                          .store = {.read = access.read, .write = write},
                          .codec = codec,
                          .question = QuestionRecordOf(request.question, problem, codec),
                          .launcher = request.trials->launcher,
                          .device_count = DeviceCount(problem.cluster),
                          .cancel = control.cancel}));
  control.trials = &trials->journal();
  control.print_case = codec.print_case;
  return hooks.run(study, knowledge, control);
}

EventRecord EngineState::ProgressEvent(const std::string& id, const Progress& progress) const {
  return {.study_id = id,
          .time_ms = NowMs(),
          .kind = kProgressEventKind,
          .payload = codec.encode_progress(progress)};
}

void EngineState::AppendProgress(const std::string& id, const Progress& progress) {
  const EventRecord event = ProgressEvent(id, progress);
  Report(id, store.Write([&](Recorder& recorder) {
    return recorder.AppendEvents({&event, 1}).status();
  }));
  followers.Publish(id);
}

absl::Status EngineState::Interrupt(const std::string& id) const {
  const EventRecord event = {.study_id = id, .time_ms = NowMs(), .kind = kShutdownEventKind};
  return access.write([&](Recorder& recorder) -> absl::Status {
    RETURN_IF_ERROR(recorder.AppendEvents({&event, 1}).status());
    return recorder
        .UpdateStudy({.study_id = id, .state = StudyState::kInterrupted, .time_ms = NowMs()})
        .status();
  });
}

absl::StatusOr<StudyRecord> EngineState::Become(const std::string& id, StudyState state) const {
  return WriteTo(access, [&](Recorder& recorder) {
    return recorder.UpdateStudy(
        {.study_id = id, .state = state, .time_ms = NowMs(), .owner = owner});
  });
}

// The caller holds the mutex.
void EngineState::Queue(const std::string& id, Lane lane) {
  studies.Push(id, lane);
  changed.notify_all();
}

// The caller holds the mutex, so that a study cannot be cancelled while its end is being stored.
absl::Status EngineState::Save(const std::string& id, StudyEnding& ending, bool was_cut) {
  const RunningStudy& study = *studies.Running(id);
  if (study.is_cancelled_by_user && ending.state != StudyState::kFailed) {
    ending.state = StudyState::kCancelled;
    ending.outcome = "cancelled";
    return Finish(ending).status();
  }
  if (!was_cut) return Finish(ending).status();
  // Our destructor stopped it, unless a user paused it; nobody else cancels.
  return study.next_state.has_value() ? Become(id, *study.next_state).status() : Interrupt(id);
}

void EngineState::Conclude(const std::string& id, StudyEnding ending, bool was_cut) {
  for (int attempt = 1;; ++attempt) {
    bool is_over = false;
    {
      const std::lock_guard lock(mutex);
      const absl::Status saved = Save(id, ending, was_cut);
      is_over = saved.ok() || attempt == kSaveAttempts || is_stopping;
      if (is_over) {
        const RunningStudy& study = *studies.Running(id);
        const bool goes_on = saved.ok() && was_cut && !study.is_cancelled_by_user &&
                             study.next_state == StudyState::kQueued;
        const Lane lane = study.lane;
        studies.End(id);
        if (goes_on) Queue(id, lane);
        Report(id, saved);
      }
    }
    if (is_over) {
      followers.Publish(id);
      return;
    }
    std::this_thread::sleep_for(kSavePause);
  }
}

// Writes in one call, so that it takes one sync. The answer is kept even if its calibration cannot
// be stored.
absl::StatusOr<StudyRecord> EngineState::Record(const StudyRecord& record,
                                                const std::optional<CalibrationRecord>& calibration,
                                                const StudyEnding& ending) const {
  absl::Status explained;
  ASSIGN_OR_RETURN(StudyRecord study,
                   WriteTo(access, [&](Recorder& recorder) -> absl::StatusOr<StudyRecord> {
                     RETURN_IF_ERROR(recorder.InsertStudy(record).status());
                     if (calibration) explained = recorder.InsertCalibration(*calibration);
                     return recorder.FinishStudy(ending);
                   }));
  Report(study.id, explained);
  return study;
}

// The caller holds the mutex. After releasing it, the caller publishes the study and stops it with
// `cancel`.
absl::StatusOr<StudyRecord> EngineState::Cancel(std::string_view id,
                                                std::optional<std::stop_source>& cancel) {
  ASSIGN_OR_RETURN(const StudyRecord study, queries.GetStudy(id));
  if (IsTerminal(study.state)) return study;
  RunningStudy* const running = studies.Running(id);
  ASSIGN_OR_RETURN(const bool has_job_left,
                   ReadFrom(access, [&](const Recorder& recorder) -> absl::StatusOr<bool> {
                     return HasJobLeft(recorder, study.id);
                   }));
  if (running == nullptr && !has_job_left) {
    studies.Remove(study.id);
    return Finish(CancelledEnding(study.id));
  }
  if (running != nullptr) {
    running->is_cancelled_by_user = true;
    cancel.emplace(running->cancel);
  } else {
    studies.EndWhenItBegins(study.id, std::nullopt);
    if (study.state == StudyState::kPaused) Queue(study.id, Lane::kJobs);
  }
  return WriteTo(access, [&](Recorder& recorder) {
    return recorder.UpdateStudy(
        {.study_id = study.id, .state = StudyState::kCancelling, .time_ms = NowMs()});
  });
}

// The caller holds the mutex. After releasing it, the caller publishes the study and stops
// `to_stop`, but not its jobs.
absl::StatusOr<StudyRecord> EngineState::Pause(std::string_view id,
                                               std::optional<RunningStudy>& to_stop) {
  ASSIGN_OR_RETURN(StudyRecord study, queries.GetStudy(id));
  if (study.state == StudyState::kPaused) return study;
  RunningStudy* const running = studies.Running(id);
  if (running == nullptr || running->is_cancelled_by_user) {
    ASSIGN_OR_RETURN(StudyRecord paused, Become(study.id, StudyState::kPaused));
    studies.Remove(study.id);
    return paused;
  }
  running->next_state = StudyState::kPaused;
  to_stop = *running;
  return study;
}

// The caller holds the mutex, and publishes the study after releasing it.
absl::StatusOr<StudyRecord> EngineState::Resume(std::string_view id) {
  ASSIGN_OR_RETURN(StudyRecord study, ReadFrom(access, [&](const Recorder& recorder) {
                     return recorder.GetStudy(id);
                   }));
  RunningStudy* const running = studies.Running(id);
  if (running != nullptr && running->next_state.has_value()) {
    running->next_state = StudyState::kQueued;
    return study;
  }
  const bool is_waiting = study.state == StudyState::kQueued || study.state == StudyState::kRunning;
  if (is_waiting) return study;
  const Lane lane = LaneOf(codec.read_launcher(study.question));
  ASSIGN_OR_RETURN(study, Become(study.id, StudyState::kQueued));
  Queue(study.id, lane);
  return study;
}

}  // namespace meshwright
