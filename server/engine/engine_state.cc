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
#include "recorder/leases.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "server/engine/journal_events.h"
#include "server/engine/measurement.h"
#include "server/engine/queue/quota.h"
#include "server/engine/recovery.h"
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

// The pause before a study is begun again that could not be, because the store is out of order.
constexpr std::chrono::milliseconds kRetryPause(500);

// The pause between two looks at a lease that was not renewed in time.
constexpr std::chrono::milliseconds kLeasePause(50);

absl::Status LostLease() {
  return WithReason(
      absl::FailedPreconditionError("another server has taken the study over; it stops here"),
      "STALE_LEASE");
}

}  // namespace

// Writes about a study that runs, unless another server has it by now.
absl::Status EngineState::WriteAs(const StudyLease& lease,
                                  const std::function<absl::Status(Recorder&)>& call) {
  return store.Write([&](Recorder& recorder) -> absl::Status {
    RETURN_IF_ERROR(recorder.CheckLease(lease).status());
    return call(recorder);
  });
}

absl::StatusOr<InsertedStudy> EngineState::Insert(StudyRecord record,
                                                  const CreateStudyOptions& options) const {
  record.owner = owner;
  record.request_id = options.request_id;
  record.request_hash += options.study_id.value_or("");  // it is part of what the client asked for
  record.creator = options.creator;
  record.create_time_ms = NowMs();
  const auto insert = [this, &record](Recorder& recorder) -> absl::StatusOr<InsertedStudy> {
    ASSIGN_OR_RETURN(InsertedStudy inserted, recorder.InsertStudy(record));
    if (inserted.is_new) RETURN_IF_ERROR(CheckQuota(hooks.quota, recorder, record, NowMs()));
    return inserted;
  };
  record.id = options.study_id.value_or("");
  if (options.study_id.has_value()) return WriteTo(access, insert);
  for (;;) {
    record.id = NewStudyId();
    auto inserted = WriteTo(access, insert);
    if (!absl::IsAlreadyExists(inserted.status())) return inserted;
  }
}

void EngineState::Run(Lane lane, const std::stop_token& stop) {
  while (const auto study = NextStudy(lane, stop)) RunOne(*study);
}

std::optional<WaitingStudy> EngineState::NextStudy(Lane lane, const std::stop_token& stop) {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, stop, [this, lane] { return !studies.IsEmpty(lane); });
    if (is_stopping || studies.IsEmpty(lane)) return std::nullopt;
    if (auto study = studies.Begin(lane)) return study;
  }
}

// Leases a study that waits. A request that cannot be read is claimed too, so that it can fail.
absl::StatusOr<ClaimedStudy> EngineState::Claim(const std::string& id, ResolvedStudy* study,
                                                std::optional<absl::Status>& failure) {
  const std::optional<std::int64_t> lease_ms =
      is_shared ? std::optional<std::int64_t>(hooks.study_lease.count()) : std::nullopt;
  return WriteTo(access, [&](Recorder& recorder) -> absl::StatusOr<ClaimedStudy> {
    ASSIGN_OR_RETURN(
        ClaimedStudy claimed,
        recorder.ClaimStudy(
            {.study_id = id, .owner = owner, .lease_ms = lease_ms, .time_ms = NowMs()}));
    failure.reset();
    if (HasJobLeft(recorder, id)) {
      ASSIGN_OR_RETURN(failure, CrashFailure(recorder, id));
    }
    if (study == nullptr) return claimed;
    // The history that a study may learn from is fixed when it first starts.
    ASSIGN_OR_RETURN(const std::int64_t last, recorder.LastMeasurementSequence());
    std::optional<std::int64_t>& sequence = study->request.history_sequence;
    ASSIGN_OR_RETURN(sequence,
                     recorder.SetStudyHistory(id, std::min(last, sequence.value_or(last))));
    return claimed;
  });
}

// Leaves a lease without a token if the study is not to be run here.
absl::StatusOr<ResolvedStudy> EngineState::Begin(const std::string& id, StudyLease& lease) {
  const auto record = queries.GetStudy(id);
  absl::StatusOr<ResolvedStudy> study = absl::UnknownError("not read");
  if (record.ok()) study = codec.decode_request(record->question);
  {
    const std::lock_guard lock(mutex);
    RunningStudy& running = *studies.Running(id);
    absl::StatusOr<ClaimedStudy> claimed = absl::UnknownError("not claimed");
    if (record.ok()) {
      claimed = Claim(id, study.ok() ? &*study : nullptr, running.failure);
    } else {
      claimed = record.status();
    }
    if (!claimed.ok()) {
      studies.End(id);
      return claimed.status();
    }
    lease = claimed->lease;
    running.token = lease.token;
    running.is_cancelled_by_user |= claimed->study.state == StudyState::kCancelling;
    if (running.is_cancelled_by_user || running.failure.has_value()) running.cancel.request_stop();
  }
  followers.Publish(id);
  return study;
}

HistorySource EngineState::HistoryUpTo(std::int64_t sequence) {
  return {.sequence = sequence, .read = [this, sequence](const Problem& problem) {
            return history.Read(problem, sequence);
          }};
}

// Waits until the study's lease is known to hold or to be lost, as after this process was stopped.
absl::Status EngineState::MayAct(const StudyLease& lease) {
  while (true) {
    {
      const std::lock_guard lock(mutex);
      if (studies.Running(lease.study_id)->is_lost) return LostLease();
    }
    if (keeper == nullptr || Reason(keeper->Check()) != "LEASE_LOST") return absl::OkStatus();
    std::this_thread::sleep_for(kLeasePause);
  }
}

// Returns true as long as a study whose writes fail may still be stored, because others would find
// it as it is.
bool EngineState::IsPatient(const StudyLease& lease) {
  const std::lock_guard lock(mutex);
  return is_shared && !is_stopping && !studies.Running(lease.study_id)->is_lost;
}

// Queues a study that could not be claimed, unless there is no need: it was taken, cancelled,
// paused or deleted meanwhile, or it will be found in a store that is shared.
void EngineState::RetryLater(const WaitingStudy& study, const absl::Status& why) {
  if (Reason(why) == "STUDY_TAKEN" || absl::IsNotFound(why)) return;
  Report(study.id, why);
  std::this_thread::sleep_for(kRetryPause);
  const std::lock_guard lock(mutex);
  if (!is_shared && !is_stopping) Queue(study);
}

void EngineState::RunOne(const WaitingStudy& waiting) {
  const std::string& id = waiting.id;
  StudyLease lease;
  const auto study = Begin(id, lease);
  if (lease.token == 0) return RetryLater(waiting, study.status());
  if (!study.ok()) {
    Conclude(lease, FailedEnding(id, study.status()), /*was_cut=*/false);
    return;
  }
  std::optional<Progress> unsaved_progress;
  auto answer = Answer(lease, *study, unsaved_progress);
  {
    const std::lock_guard lock(mutex);
    if (const auto& failure = studies.Running(id)->failure) answer = *failure;
  }
  StudyEnding ending = EndingOf(id, answer, codec, NowMs());
  if (unsaved_progress.has_value()) {
    ending.events.push_back(ProgressEvent(id, *unsaved_progress));
  }
  if (const auto calibration = CalibrationOf(answer, codec, NowMs())) {
    Report(id, WriteAs(lease, [&](Recorder& recorder) {
             return recorder.InsertCalibration(*calibration);
           }));
  }
  Conclude(lease, std::move(ending), WasCut(answer));
}

absl::StatusOr<StudyAnswer> EngineState::Answer(const StudyLease& lease, const ResolvedStudy& study,
                                                std::optional<Progress>& unsaved_progress) {
  std::stop_token cancel;
  std::stop_token leave;
  {
    const std::lock_guard lock(mutex);
    cancel = studies.Running(lease.study_id)->cancel.get_token();
    leave = studies.Running(lease.study_id)->leave.get_token();
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
    AppendProgress(lease, progress);
  };
  // The thread must outlive any study, even one that asks for more memory than there is.
  try {
    return Try(lease, study,
               {.cancel = cancel,
                .leave = leave,
                .on_progress = on_progress,
                .history = HistoryUpTo(study.request.history_sequence.value_or(0))});
  } catch (const std::exception& e) {
    return absl::InternalError(fmt::format("the study failed: {}", e.what()));
  }
}

absl::StatusOr<StudyAnswer> EngineState::Try(const StudyLease& lease, const ResolvedStudy& study,
                                             StudyControl control) {
  const auto& [request, problem, baseline, replay] = study;
  if (!request.trials.has_value()) return hooks.run(study, knowledge, control);
  const auto write = [this, &lease](const StoreCall& call) {
    absl::Status done = WriteAs(lease, call);
    if (Reason(done) == "STALE_LEASE") StopLost(lease);
    followers.Publish(lease.study_id);
    return done;
  };
  ASSIGN_OR_RETURN(
      const std::unique_ptr<StoredTrials> trials,
      StoredTrials::Open({.study_id = lease.study_id,
                          .store = {.read = access.read, .write = write},
                          .codec = codec,
                          .question = QuestionRecordOf(request.question, problem, codec),
                          .launcher = request.trials->launcher,
                          .device_count = DeviceCount(problem.cluster),
                          .cancel = control.cancel,
                          .may_act = [this, &lease] { return MayAct(lease); },
                          .is_patient = [this, &lease] { return IsPatient(lease); },
                          .on_measurement = hooks.on_measurement}));
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

void EngineState::AppendProgress(const StudyLease& lease, const Progress& progress) {
  const EventRecord event = ProgressEvent(lease.study_id, progress);
  const absl::Status written = WriteAs(lease, [&](Recorder& recorder) {
    return recorder.AppendEvents({&event, 1}).status();
  });
  if (Reason(written) == "STALE_LEASE") {
    StopLost(lease);
  } else {
    Report(lease.study_id, written);
  }
  followers.Publish(lease.study_id);
}

// The caller holds the mutex.
void EngineState::Queue(WaitingStudy study) {
  studies.Push(std::move(study));
  changed.notify_all();
}

namespace {

// Stores that a study has stopped before its end. Returns true if it is to be queued.
absl::StatusOr<bool> SaveStop(Recorder& recorder, const StudyLease& lease,
                              const RunningStudy& study, const LeaseStanding& standing) {
  const std::string& id = lease.study_id;
  // Somebody cancels it, but it was stopped for another reason, and its job may go on: the next
  // server ends it.
  if (standing.state == StudyState::kCancelling) {
    RETURN_IF_ERROR(recorder.ReleaseLease(lease));
    return false;
  }
  StudyUpdate update = {.study_id = id, .time_ms = NowMs()};
  if (study.is_pausing) {
    update.state = standing.is_to_pause ? StudyState::kPaused : StudyState::kQueued;
    RETURN_IF_ERROR(recorder.UpdateStudy(update).status());
    return update.state == StudyState::kQueued;
  }
  // The engine's destructor stopped it.
  const EventRecord event = {.study_id = id, .time_ms = NowMs(), .kind = kShutdownEventKind};
  RETURN_IF_ERROR(recorder.AppendEvents({&event, 1}).status());
  update.state = StudyState::kInterrupted;
  RETURN_IF_ERROR(recorder.UpdateStudy(update).status());
  return false;
}

}  // namespace

// The caller holds the mutex, so that a study cannot be cancelled while its end is being stored.
// `goes_on`: it is to be queued again.
absl::Status EngineState::Save(const StudyLease& lease, StudyEnding& ending, bool was_cut,
                               bool& goes_on) {
  const RunningStudy& study = *studies.Running(lease.study_id);
  if (study.is_lost) return absl::OkStatus();
  return store.Write([&](Recorder& recorder) -> absl::Status {
    ASSIGN_OR_RETURN(const LeaseStanding standing, recorder.CheckLease(lease));
    const bool is_cancelled =
        study.is_cancelled_by_user || (!was_cut && standing.state == StudyState::kCancelling);
    if (was_cut && !is_cancelled) {
      ASSIGN_OR_RETURN(goes_on, SaveStop(recorder, lease, study, standing));
      return absl::OkStatus();
    }
    if (is_cancelled && ending.state != StudyState::kFailed) {
      ending.state = StudyState::kCancelled;
      ending.outcome = "cancelled";
    }
    return EndStudy(recorder, ending).status();
  });
}

void EngineState::Conclude(const StudyLease& lease, StudyEnding ending, bool was_cut) {
  const std::string& id = lease.study_id;
  for (int attempt = 1;; ++attempt) {
    bool is_over = false;
    {
      const std::lock_guard lock(mutex);
      bool goes_on = false;
      const absl::Status saved = Save(lease, ending, was_cut, goes_on);
      const bool is_stale = Reason(saved) == "STALE_LEASE";
      is_over = saved.ok() || is_stale || attempt == kSaveAttempts || is_stopping;
      if (is_over) {
        const RunningStudy& study = *studies.Running(id);
        WaitingStudy next = {.id = id, .lane = study.lane, .creator = study.creator};
        if (study.is_lost) --lost_count;
        studies.End(id);
        if (goes_on && saved.ok()) Queue(std::move(next));
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

// Another server has the study. It stops here, and nothing of it is stored any more; its jobs go
// on.
void EngineState::StopLost(const StudyLease& lease) {
  std::optional<RunningStudy> lost;
  {
    const std::lock_guard lock(mutex);
    RunningStudy* const study = studies.Running(lease.study_id);
    if (study == nullptr || study->token != lease.token || study->is_lost) return;
    study->is_lost = true;
    ++lost_count;
    lost = *study;
  }
  Report(lease.study_id, LostLease());
  lost->leave.request_stop();
  lost->cancel.request_stop();
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
  ASSIGN_OR_RETURN(const StudyRecord before, queries.GetStudy(id));
  if (IsTerminal(before.state)) return before;
  RunningStudy* const running = studies.Running(id);
  ASSIGN_OR_RETURN(
      StudyRecord study, WriteTo(access, [&](Recorder& recorder) -> absl::StatusOr<StudyRecord> {
        ASSIGN_OR_RETURN(StudyRecord now, recorder.GetStudy(id));
        if (IsTerminal(now.state)) return now;
        ASSIGN_OR_RETURN(const bool is_leased, recorder.IsLeased(id));
        if (running == nullptr && !is_leased && !HasJobLeft(recorder, now.id)) {
          return EndStudy(recorder, CancelledEnding(now.id));
        }
        return recorder.UpdateStudy(
            {.study_id = now.id, .state = StudyState::kCancelling, .time_ms = NowMs()});
      }));
  if (running != nullptr) {
    running->is_cancelled_by_user = true;
    cancel.emplace(running->cancel);
  } else if (IsTerminal(study.state)) {
    studies.Remove(study.id);
  } else {
    // Its job must still be ended, unless another server does it.
    Queue({.id = study.id, .lane = Lane::kJobs, .creator = study.creator});
  }
  return study;
}

// The caller holds the mutex. After releasing it, the caller publishes the study and stops
// `to_stop`, but not its jobs.
absl::StatusOr<StudyRecord> EngineState::Pause(std::string_view id,
                                               std::optional<RunningStudy>& to_stop) {
  RunningStudy* const running = studies.Running(id);
  ASSIGN_OR_RETURN(StudyRecord study,
                   WriteTo(access, [&](Recorder& recorder) -> absl::StatusOr<StudyRecord> {
                     ASSIGN_OR_RETURN(StudyRecord now, recorder.GetStudy(id));
                     if (now.state == StudyState::kPaused) return now;
                     ASSIGN_OR_RETURN(const bool is_leased, recorder.IsLeased(id));
                     if (is_leased && now.state == StudyState::kRunning) {
                       RETURN_IF_ERROR(recorder.SetPauseWanted(id, true));
                       return now;
                     }
                     return recorder.UpdateStudy(
                         {.study_id = now.id, .state = StudyState::kPaused, .time_ms = NowMs()});
                   }));
  if (study.state == StudyState::kPaused) {
    studies.Remove(study.id);
  } else if (running != nullptr) {
    running->is_pausing = true;
    to_stop = *running;
  }
  return study;
}

// The caller holds the mutex, and publishes the study after releasing it.
absl::StatusOr<StudyRecord> EngineState::Resume(std::string_view id) {
  bool is_queued = false;
  ASSIGN_OR_RETURN(
      StudyRecord study, WriteTo(access, [&](Recorder& recorder) -> absl::StatusOr<StudyRecord> {
        ASSIGN_OR_RETURN(StudyRecord now, recorder.GetStudy(id));
        is_queued = false;
        if (now.state == StudyState::kQueued) return now;
        if (now.state == StudyState::kRunning) {
          RETURN_IF_ERROR(recorder.SetPauseWanted(id, false));
          return now;
        }
        is_queued = true;
        return recorder.UpdateStudy(
            {.study_id = now.id, .state = StudyState::kQueued, .time_ms = NowMs(), .owner = owner});
      }));
  if (is_queued) {
    Queue({.id = study.id,
           .lane = LaneOf(codec.read_launcher(study.question)),
           .creator = study.creator});
  }
  return study;
}

}  // namespace meshwright
