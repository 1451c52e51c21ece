#include "server/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "recorder/call_records.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/engine/answer_memory.h"
#include "server/engine/engine_state.h"
#include "server/engine/history_queries.h"
#include "server/engine/queue/lease_keeper.h"
#include "server/engine/queue/quota.h"
#include "server/engine/queue/study_queue.h"
#include "server/engine/recovery.h"
#include "server/engine/sharing.h"
#include "server/engine/study_id.h"
#include "server/engine/study_record.h"
#include "server/engine/wall_clock.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {
namespace {

// The number of studies with jobs that run at the same time; others wait.
constexpr int kJobThreads = 8;

absl::Status CheckLane(Lane lane, const EngineHooks& hooks) {
  if (lane != Lane::kJobs || hooks.allows_jobs) return absl::OkStatus();
  return WithReason(absl::PermissionDeniedError("this server runs no jobs: it was started "
                                                "without --allow-jobs"),
                    "JOBS_NOT_ALLOWED");
}

}  // namespace

Engine::Engine(std::unique_ptr<EngineState> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Start(Recorder recorder, const Knowledge& knowledge,
                                                      StudyCodec codec, EngineHooks hooks) {
  auto state = std::make_unique<EngineState>(std::move(recorder), knowledge, std::move(codec),
                                             std::move(hooks));
  EngineState& s = *state;
  // All studies take one call, so that it takes one sync.
  RETURN_IF_ERROR(s.store.Write([&s](Recorder& writer) {
    return s.is_shared ? TakeOverStudies(writer, s.owner)
                       : ResumeStudies(writer, s.owner, s.codec, s.studies);
  }));
  if (s.is_shared) s.keeper = StartSharing(s);
  for (int i = 0; i <= kJobThreads; ++i) {
    const Lane lane = i == 0 ? Lane::kSearches : Lane::kJobs;
    s.threads.emplace_back([&s, lane](const std::stop_token& stop) { s.Run(lane, stop); });
  }
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Engine::~Engine() {
  std::vector<RunningStudy> running;
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_stopping = true;
    running = state_->studies.All();
  }
  for (RunningStudy& study : running) {
    study.leave.request_stop();
    study.cancel.request_stop();
  }
  for (std::jthread& thread : state_->threads) thread.request_stop();
  state_->threads.clear();
  state_->keeper.reset();  // until here it has renewed the leases of studies that were stopping
  state_->followers.Close();
}

absl::StatusOr<StudyRecord> Engine::CreateStudy(const ResolvedStudy& study,
                                                const CreateStudyOptions& options) {
  const StudyRequest& request = study.request;
  if (options.study_id.has_value()) {
    const std::string launcher = request.trials.has_value() ? request.trials->launcher : "";
    if (auto violation = CheckStudyId(*options.study_id, launcher)) {
      return InvalidFields({*violation});
    }
  }
  RETURN_IF_ERROR(CheckLane(LaneOf(request), state_->hooks));
  const StudyRecord record = NewStudyRecord(study, state_->codec);
  const std::lock_guard lock(state_->mutex);
  ASSIGN_OR_RETURN(InsertedStudy inserted, state_->Insert(record, options));
  if (inserted.is_new) {
    state_->Queue(
        {.id = inserted.study.id, .lane = LaneOf(request), .creator = inserted.study.creator});
  }
  return std::move(inserted.study);
}

absl::StatusOr<StudyRecord> Engine::RecordStudy(const ResolvedStudy& study,
                                                const absl::StatusOr<StudyAnswer>& answer,
                                                const OutsideRun& run) {
  StudyRecord record = NewStudyRecord(study, state_->codec);
  record.state = StudyState::kRunning;
  record.owner = state_->owner;
  record.create_time_ms = NowMs();
  record.start_time_ms = run.start_time_ms;
  record.history_sequence = run.history_sequence;
  const std::optional<CalibrationRecord> calibration =
      CalibrationOf(answer, state_->codec, NowMs());
  for (;;) {
    record.id = NewStudyId();
    const StudyEnding ending = EndingOf(record.id, answer, state_->codec, NowMs());
    auto recorded = state_->Record(record, calibration, ending);
    if (Reason(recorded.status()) != "STUDY_EXISTS") return recorded;
  }
}

absl::StatusOr<HistorySource> Engine::History(std::optional<std::int64_t> up_to_sequence) {
  ASSIGN_OR_RETURN(const std::int64_t last, ReadFrom(state_->access, [](const Recorder& recorder) {
                     return recorder.LastMeasurementSequence();
                   }));
  return state_->HistoryUpTo(std::min(last, up_to_sequence.value_or(last)));
}

absl::StatusOr<StudyRecord> Engine::CancelStudy(std::string_view id) {
  std::optional<std::stop_source> cancel;
  absl::StatusOr<StudyRecord> study = absl::UnknownError("");
  {
    const std::lock_guard lock(state_->mutex);
    study = state_->Cancel(id, cancel);
  }
  state_->followers.Publish(std::string(id));
  if (cancel.has_value()) cancel->request_stop();
  return study;
}

absl::StatusOr<StudyRecord> Engine::PauseStudy(std::string_view id) {
  std::optional<RunningStudy> to_stop;
  absl::StatusOr<StudyRecord> study = absl::UnknownError("");
  {
    const std::lock_guard lock(state_->mutex);
    study = state_->Pause(id, to_stop);
  }
  state_->followers.Publish(std::string(id));
  if (to_stop.has_value()) {
    to_stop->leave.request_stop();
    to_stop->cancel.request_stop();
  }
  return study;
}

absl::StatusOr<StudyRecord> Engine::ResumeStudy(std::string_view id) {
  absl::StatusOr<StudyRecord> study = absl::UnknownError("");
  {
    const std::lock_guard lock(state_->mutex);
    study = state_->Resume(id);
  }
  state_->followers.Publish(std::string(id));
  return study;
}

absl::StatusOr<std::string> Engine::DeleteStudy(
    const StudyDeletion& deletion, const CallKey& call,
    const std::function<std::string(const DeletedStudy&)>& encode) {
  absl::StatusOr<std::string> answer = absl::UnknownError("");
  {
    const std::lock_guard lock(state_->mutex);
    answer = WriteTo(state_->access, [&](Recorder& recorder) {
      return recorder.AnswerOnce(call, [&]() -> absl::StatusOr<std::string> {
        ASSIGN_OR_RETURN(const DeletedStudy deleted, recorder.DeleteStudy(deletion));
        return encode(deleted);
      });
    });
  }
  if (!answer.ok()) return answer;
  state_->answers.Forget(deletion.study_id);
  state_->followers.Publish(deletion.study_id);
  return answer;
}

absl::StatusOr<std::string> Engine::RetryTrials(
    StudyReopening reopening, const CallKey& call,
    const std::function<std::string(const ReopenedStudy&)>& encode) {
  const auto study = state_->queries.GetStudy(reopening.study_id);
  // A repeated call is answered even if its study has been deleted since.
  const bool is_there = study.ok();
  if (!is_there && !(absl::IsNotFound(study.status()) && call.request_id.has_value())) {
    return study.status();
  }
  const Lane lane =
      is_there ? LaneOf(state_->codec.read_launcher(study->question)) : Lane::kSearches;
  RETURN_IF_ERROR(CheckLane(lane, state_->hooks));
  reopening.owner = state_->owner;
  bool is_new = false;
  absl::StatusOr<std::string> answer = absl::UnknownError("");
  {
    const std::lock_guard lock(state_->mutex);
    answer = WriteTo(state_->access, [&](Recorder& recorder) {
      return recorder.AnswerOnce(call, [&]() -> absl::StatusOr<std::string> {
        ASSIGN_OR_RETURN(const ReopenedStudy reopened, recorder.ReopenStudy(reopening));
        RETURN_IF_ERROR(CheckQuota(state_->hooks.quota, recorder, reopened.study, NowMs()));
        is_new = true;
        return encode(reopened);
      });
    });
    if (answer.ok() && is_new) {
      state_->Queue({.id = reopening.study_id, .lane = lane, .creator = study->creator});
    }
  }
  state_->followers.Publish(reopening.study_id);
  return answer;
}

absl::StatusOr<std::int64_t> Engine::Subscribe(std::string_view id, std::int64_t after_revision,
                                               EventSink sink) {
  return state_->followers.Add(id, after_revision, std::move(sink));
}

void Engine::Unsubscribe(std::int64_t subscription) { state_->followers.Remove(subscription); }

const StoreAccess& Engine::store() const { return state_->access; }

const HistoryQueries& Engine::queries() const { return state_->queries; }

AnswerMemory& Engine::answers() const { return state_->answers; }

std::chrono::duration<double> Engine::longest_store_hold() const {
  return state_->store.longest_hold();
}

const std::function<void(const MeasurementRecord&)>& Engine::measurement_listener() const {
  return state_->hooks.on_measurement;
}

bool Engine::allows_jobs() const { return state_->hooks.allows_jobs; }

StudyLoad Engine::load() const {
  const std::lock_guard lock(state_->mutex);
  const auto count = [&studies = state_->studies](Lane lane) {
    return StudyCounts{.waiting = studies.CountWaiting(lane),
                       .running = studies.CountRunning(lane)};
  };
  return {.searches = count(Lane::kSearches), .jobs = count(Lane::kJobs)};
}

absl::Status Engine::CheckStore() const {
  if (state_->keeper == nullptr) return state_->store.Check();
  RETURN_IF_ERROR(state_->keeper->Check());
  const int lost_count = state_->lost_count;
  if (lost_count == 0) return absl::OkStatus();
  return WithReason(
      absl::UnavailableError(
          fmt::format("other servers have taken over {} studies that still stop here", lost_count)),
      "LEASE_LOST");
}

int Engine::schema_version() const { return state_->store.schema_version(); }

}  // namespace meshwright
