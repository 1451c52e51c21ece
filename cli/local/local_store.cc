#include "cli/local/local_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "cli/local/local_history.h"
#include "cli/program/terminal.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "server/convert/attempt_wire.h"
#include "server/convert/convert.h"
#include "server/convert/study_wire.h"
#include "server/convert/trial_wire.h"
#include "server/engine/engine_options.h"
#include "server/engine/history_queries.h"
#include "server/engine/measurement.h"
#include "server/engine/store_history.h"
#include "server/engine/store_path.h"
#include "server/engine/study_id.h"
#include "server/engine/study_record.h"
#include "server/engine/wall_clock.h"
#include "server/process/owner.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

absl::Status WithAdvice(const absl::Status& status) {
  if (status.ok()) return status;
  const std::string message(status.message());
  const bool names_db = message.find("--db") != message.npos;
  const char* const advice = names_db ? ", or do not record the study with --no-record"
                                      : "; name another file with --db, or do not record the study "
                                        "with --no-record";
  return WithReason(absl::Status(status.code(), message + advice), Reason(status));
}

// A study of this command would be taken for one whose server has died, because that is found out
// by the processes of one machine.
absl::Status CheckRunsHere(const std::string& store) {
  if (IsStoreFile(store)) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(fmt::format(
          "store '{}': only a server runs studies on PostgreSQL; reach it with --server ADDRESS, "
          "or do not record the study with --no-record",
          store)),
      "STORE_NEEDS_SERVER");
}

absl::StatusOr<Recorder> OpenWriter(const std::string& store) {
  auto recorder = OpenLocalWriter(store, "meshwright tune");
  if (!recorder.ok()) return WithAdvice(recorder.status());
  return recorder;
}

// Marks studies whose process is gone as interrupted. Cancelled ones among them leave no trial
// open, but those with a job are left to whoever can end it. No note is written about `taken_up`:
// the caller reports it.
absl::Status InterruptOrphans(Recorder& recorder, std::int64_t now, std::string_view taken_up) {
  if (!IsStoreFile(recorder.path())) return absl::OkStatus();  // a server's
  const auto has_job_left = [&](const std::string& id) { return HasJobLeft(recorder, id); };
  ASSIGN_OR_RETURN(const std::vector<StudyRecord> orphans,
                   recorder.InterruptOrphans(IsAlive, now, has_job_left));
  for (const StudyRecord& orphan : orphans) {
    if (IsTerminal(orphan.state)) {
      RETURN_IF_ERROR(CancelOpenTrials(recorder, orphan.id, now));
    } else if (orphan.id != taken_up && HasJobLeft(recorder, orphan.id)) {
      const bool is_cancelling = orphan.state == StudyState::kCancelling;
      const std::string advice =
          is_cancelling ? "" : fmt::format("study resume {} continues it, meshwright ", orphan.id);
      PrintNote(fmt::format(
          "study {0} {1}, and its job may still run: meshwright {2}study cancel {0} ends it",
          orphan.id, is_cancelling ? "was being cancelled" : "was interrupted", advice));
    }
  }
  return absl::OkStatus();
}

// Returns true if no process runs a study that may go on.
bool IsAtRest(StudyState state) {
  return state == StudyState::kInterrupted || state == StudyState::kPaused;
}

// Checks that a study can be resumed.
absl::Status CheckLeft(const StudyRecord& study, LeftStudy wanted) {
  const bool is_cancelling = study.state == StudyState::kCancelling && !IsAlive(study.owner);
  if (IsAtRest(study.state)) return absl::OkStatus();
  if (is_cancelling && wanted == LeftStudy::kToEnd) return absl::OkStatus();
  std::string why = fmt::format("is {}: another process runs it", Word(study.state));
  if (IsTerminal(study.state)) why = fmt::format("has ended ({})", Word(study.state));
  if (is_cancelling) why = "was being cancelled; end it with study cancel";
  return WithReason(absl::FailedPreconditionError(fmt::format("study '{}' {}", study.id, why)),
                    "STUDY_NOT_INTERRUPTED");
}

absl::StatusOr<StudyRecord> InsertStudy(Recorder& recorder, StudyRecord record) {
  for (;;) {
    record.id = NewStudyId();
    auto inserted = recorder.InsertStudy(record);
    if (inserted.ok()) return std::move(inserted->study);
    if (!absl::IsAlreadyExists(inserted.status())) return WithAdvice(inserted.status());
  }
}

// Opens the measurements of a store, or returns nullopt if there is nothing to learn from. A caller
// who only wants an answer gets it even if the store cannot be read.
std::optional<Recorder> OpenMeasurements(const std::string& store) {
  auto recorder = Recorder::Open({.path = store, .read_only = true});
  if (recorder.ok()) return *std::move(recorder);
  if (Reason(recorder.status()) != "NO_STORE" || store != DefaultStorePath()) {
    PrintNote("warning: the answer does not learn from the store: " +
              std::string(recorder.status().message()));
  }
  return std::nullopt;
}

HistorySource SourceOf(Recorder reader, std::int64_t sequence, const Knowledge& knowledge) {
  struct Shared {
    explicit Shared(Recorder open) : recorder(std::move(open)) {}
    Recorder recorder;
    std::mutex mutex = {};
  };
  const auto shared = std::make_shared<Shared>(std::move(reader));
  return {.sequence = sequence,
          .read = [shared, sequence, codec = ProtobufCodec(knowledge),
                   &knowledge](const Problem& problem) {
            const std::lock_guard lock(shared->mutex);
            return ReadStoreHistory(shared->recorder, problem, knowledge, codec, sequence);
          }};
}

// Returns what the study may learn from. It is read beside the writer, so that the search leaves
// the store to others.
absl::StatusOr<HistorySource> HistoryOf(const Recorder& writer, const std::string& store,
                                        const StudyRequest& request, const Knowledge& knowledge) {
  ASSIGN_OR_RETURN(const std::int64_t last, writer.LastMeasurementSequence());
  const std::int64_t sequence = std::min(last, request.history_sequence.value_or(last));
  ASSIGN_OR_RETURN(Recorder reader, Recorder::Open({.path = store, .read_only = true}));
  return SourceOf(std::move(reader), sequence, knowledge);
}

v1::Study ShownStudy(const std::string& store, StudyRecord record) {
  if (!IsStoreFile(store)) return ToWire(record);  // its server may be on another machine
  const bool has_ended = IsTerminal(record.state) || record.state == StudyState::kInterrupted;
  if (has_ended || IsAlive(record.owner)) return ToWire(record);
  const bool is_cancelling = record.state == StudyState::kCancelling;
  record.state = is_cancelling ? StudyState::kCancelled : StudyState::kInterrupted;
  if (is_cancelling) record.outcome = "cancelled";
  return ToWire(record);
}

}  // namespace

absl::StatusOr<LocalStudy> BeginLocalStudy(const std::string& store, ResolvedStudy asked,
                                           const Knowledge& knowledge) {
  RETURN_IF_ERROR(CheckRunsHere(store));
  const StudyCodec codec = ProtobufCodec(knowledge);
  StudyRecord record = NewStudyRecord(asked, codec);
  ASSIGN_OR_RETURN(Recorder recorder, OpenWriter(store));
  const std::int64_t now = NowMs();
  RETURN_IF_ERROR(WithAdvice(InterruptOrphans(recorder, now, "")));
  record.state = StudyState::kRunning;
  record.owner = OwnOwner();
  record.create_time_ms = now;
  record.start_time_ms = now;
  auto history = HistoryOf(recorder, store, asked.request, knowledge);
  if (!history.ok()) return WithAdvice(history.status());
  record.history_sequence = history->sequence;
  ASSIGN_OR_RETURN(StudyRecord study, InsertStudy(recorder, std::move(record)));
  return LocalStudy{
      .record = std::move(study), .asked = std::move(asked), .history = *std::move(history)};
}

absl::StatusOr<LocalStudy> TakeLocalStudy(const std::string& store, const std::string& id,
                                          LeftStudy wanted, const Knowledge& knowledge) {
  RETURN_IF_ERROR(CheckRunsHere(store));
  const StudyCodec codec = ProtobufCodec(knowledge);
  // Reading comes first, because a writer would create a missing store.
  RETURN_IF_ERROR(Recorder::Open({.path = store, .read_only = true}).status());
  ASSIGN_OR_RETURN(Recorder recorder, OpenLocalWriter(store, "meshwright study"));
  RETURN_IF_ERROR(InterruptOrphans(recorder, NowMs(), id));
  ASSIGN_OR_RETURN(StudyRecord record, recorder.GetStudy(id));
  RETURN_IF_ERROR(CheckLeft(record, wanted));
  ASSIGN_OR_RETURN(ResolvedStudy asked, codec.decode_request(record.question));
  if (IsAtRest(record.state)) {
    ASSIGN_OR_RETURN(record, recorder.UpdateStudy({.study_id = id,
                                                   .state = StudyState::kRunning,
                                                   .time_ms = NowMs(),
                                                   .owner = OwnOwner()}));
  }
  // The history that it may learn from was settled when it first started.
  ASSIGN_OR_RETURN(const std::int64_t last, recorder.LastMeasurementSequence());
  std::optional<std::int64_t>& sequence = asked.request.history_sequence;
  ASSIGN_OR_RETURN(sequence, recorder.SetStudyHistory(id, std::min(last, sequence.value_or(last))));
  ASSIGN_OR_RETURN(HistorySource history, HistoryOf(recorder, store, asked.request, knowledge));
  return LocalStudy{
      .record = std::move(record), .asked = std::move(asked), .history = std::move(history)};
}

absl::Status LeaveLocalStudy(const std::string& store, const std::string& id) {
  ASSIGN_OR_RETURN(Recorder recorder, OpenLocalWriter(store, "meshwright study"));
  ASSIGN_OR_RETURN(const StudyRecord record, recorder.GetStudy(id));
  // it never became another state
  if (record.state == StudyState::kCancelling) return absl::OkStatus();
  return recorder
      .UpdateStudy({.study_id = id, .state = StudyState::kInterrupted, .time_ms = NowMs()})
      .status();
}

absl::StatusOr<std::unique_ptr<StoredTrials>> OpenLocalTrials(const std::string& store,
                                                              const LocalStudy& study,
                                                              const Knowledge& knowledge,
                                                              const std::stop_token& cancel) {
  const StudyCodec codec = ProtobufCodec(knowledge);
  const auto& [request, problem, baseline, replay] = study.asked;
  const StoreAccess access = {.read = [store](const StoreRead& read) -> absl::Status {
                                ASSIGN_OR_RETURN(const Recorder recorder, OpenWriter(store));
                                return read(recorder);
                              },
                              .write = [store](const StoreCall& call) -> absl::Status {
                                ASSIGN_OR_RETURN(Recorder recorder, OpenWriter(store));
                                return DirectAccess(recorder).write(call);
                              }};
  return StoredTrials::Open({.study_id = study.record.id,
                             .store = access,
                             .codec = codec,
                             .question = QuestionRecordOf(request.question, problem, codec),
                             .launcher = request.trials->launcher,
                             .device_count = DeviceCount(problem.cluster),
                             .cancel = cancel});
}

absl::StatusOr<StudyRecord> EndLocalStudy(const std::string& store, const StudyEnding& ending,
                                          const std::optional<CalibrationRecord>& calibration) {
  ASSIGN_OR_RETURN(Recorder recorder, OpenWriter(store));
  RETURN_IF_ERROR(WithAdvice(CancelOpenTrials(recorder, ending.study_id, ending.time_ms)));
  if (calibration.has_value()) {
    RETURN_IF_ERROR(WithAdvice(recorder.InsertCalibration(*calibration)));
  }
  auto study = recorder.FinishStudy(ending);
  if (!study.ok()) return WithAdvice(study.status());
  return study;
}

absl::StatusOr<HistorySource> LocalHistory(const std::string& store, const Knowledge& knowledge,
                                           std::optional<std::int64_t> up_to_sequence) {
  std::optional<Recorder> recorder = OpenMeasurements(store);
  if (!recorder.has_value()) return HistorySource();
  ASSIGN_OR_RETURN(const std::int64_t last, recorder->LastMeasurementSequence());
  const std::int64_t sequence = std::min(last, up_to_sequence.value_or(last));
  return SourceOf(*std::move(recorder), sequence, knowledge);
}

std::function<v1::Study(StudyRecord)> ShowStudiesOf(const std::string& store) {
  return [store](StudyRecord record) { return ShownStudy(store, std::move(record)); };
}

absl::StatusOr<v1::ListStudiesResponse> ListLocalStudies(const std::string& store,
                                                         const v1::ListStudiesRequest& request) {
  ASSIGN_OR_RETURN(Recorder recorder, OpenLocalReader(store));
  return ListStudies(HistoryQueries(DirectAccess(recorder)), request, ShowStudiesOf(store));
}

absl::StatusOr<v1::Study> UpdateLocalStudy(const std::string& store,
                                           const v1::UpdateStudyRequest& request) {
  ASSIGN_OR_RETURN(const StudyEdit edit, FromWire(request));
  // Reading comes first, because a writer would create a missing store.
  RETURN_IF_ERROR(Recorder::Open({.path = store, .read_only = true}).status());
  ASSIGN_OR_RETURN(Recorder recorder, OpenLocalWriter(store, "meshwright study"));
  ASSIGN_OR_RETURN(StudyRecord study, recorder.EditStudy(edit));
  return ShownStudy(store, std::move(study));
}

absl::StatusOr<v1::DeleteStudyResponse> DeleteLocalStudy(const std::string& store,
                                                         const v1::DeleteStudyRequest& request) {
  ASSIGN_OR_RETURN(const StudyDeletion deletion, FromWire(request));
  // Reading comes first, because a writer would create a missing store.
  RETURN_IF_ERROR(Recorder::Open({.path = store, .read_only = true}).status());
  ASSIGN_OR_RETURN(Recorder recorder, OpenLocalWriter(store, "meshwright study"));
  RETURN_IF_ERROR(InterruptOrphans(recorder, NowMs(), request.study_id()));
  ASSIGN_OR_RETURN(const DeletedStudy deleted, recorder.DeleteStudy(deletion));
  return ToWire(deleted, request.study_id());
}

absl::StatusOr<v1::RetryTrialsResponse> ReopenLocalStudy(const std::string& store,
                                                         const v1::RetryTrialsRequest& request) {
  ASSIGN_OR_RETURN(StudyReopening reopening, FromWire(request));
  reopening.state = StudyState::kInterrupted;
  RETURN_IF_ERROR(CheckRunsHere(store));
  RETURN_IF_ERROR(Recorder::Open({.path = store, .read_only = true}).status());
  ASSIGN_OR_RETURN(Recorder recorder, OpenLocalWriter(store, "meshwright study"));
  RETURN_IF_ERROR(InterruptOrphans(recorder, NowMs(), request.study_id()));
  ASSIGN_OR_RETURN(const ReopenedStudy reopened, recorder.ReopenStudy(reopening));
  return ToWire(reopened);
}

absl::StatusOr<v1::ListPlansResponse> ListLocalPlans(const std::string& store,
                                                     const v1::ListPlansRequest& request) {
  ASSIGN_OR_RETURN(Recorder recorder, Recorder::Open({.path = store, .read_only = true}));
  return ListPlans(HistoryQueries(DirectAccess(recorder)), request);
}

absl::StatusOr<v1::ListTrialsResponse> ListLocalTrials(const std::string& store,
                                                       const v1::ListTrialsRequest& request) {
  ASSIGN_OR_RETURN(Recorder recorder, Recorder::Open({.path = store, .read_only = true}));
  return ListTrials(HistoryQueries(DirectAccess(recorder)), request);
}

absl::StatusOr<v1::ListAttemptsResponse> ListLocalAttempts(const std::string& store,
                                                           const v1::ListAttemptsRequest& request) {
  ASSIGN_OR_RETURN(Recorder recorder, Recorder::Open({.path = store, .read_only = true}));
  return ListAttempts(HistoryQueries(DirectAccess(recorder)), request);
}

absl::StatusOr<v1::GetStudyResponse> GetLocalStudy(const std::string& store,
                                                   const std::string& id) {
  ASSIGN_OR_RETURN(Recorder recorder, Recorder::Open({.path = store, .read_only = true}));
  return GetStudy(HistoryQueries(DirectAccess(recorder)), id, ShowStudiesOf(store));
}

}  // namespace meshwright
