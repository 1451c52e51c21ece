#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/call_records.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "server/engine/engine_options.h"
#include "server/engine/history_queries.h"
#include "server/engine/journal_events.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

class AnswerMemory;
struct EngineState;

// The start of a study that was run outside the engine, and the history that it learnt from.
struct OutsideRun {
  std::int64_t start_time_ms = 0;
  std::int64_t history_sequence = 0;
};

// The studies of one kind that wait for a thread, and those that have one.
struct StudyCounts {
  int waiting = 0;
  int running = 0;
};
struct StudyLoad {
  StudyCounts searches = {};
  StudyCounts jobs = {};
};

// Runs studies on threads of its own and keeps them in the store. Searches run one after the other;
// studies whose trials are jobs run beside them. All methods may be called from any thread. At
// start, studies that an earlier process left behind are shown as interrupted and then run again
// from their stored request. A study that has crashed its process three times fails.
//
// On a store on PostgreSQL, which several servers share, each study is run by one of them
// (recorder/leases.h), studies of a server that is gone are run by another, and all methods are
// about the studies of all. Any other store has this engine as its only owner.
class Engine {
 public:
  // `knowledge` must outlive the engine.
  static absl::StatusOr<std::unique_ptr<Engine>> Start(Recorder recorder,
                                                       const Knowledge& knowledge, StudyCodec codec,
                                                       EngineHooks hooks = {});
  // Stops the studies that run and leaves them interrupted in the store, to be resumed. Their jobs
  // go on.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Creates a study and queues it, or returns the study that the same request with the same
  // request_id created before. Returns PERMISSION_DENIED with reason JOBS_NOT_ALLOWED if it would
  // run jobs and this engine may not.
  absl::StatusOr<StudyRecord> CreateStudy(const ResolvedStudy& study,
                                          const CreateStudyOptions& options);

  // Keeps a study that was run outside the engine.
  absl::StatusOr<StudyRecord> RecordStudy(const ResolvedStudy& study,
                                          const absl::StatusOr<StudyAnswer>& answer,
                                          const OutsideRun& run);

  // Returns access to the store's measurements for any question as of one moment: now, or
  // `up_to_sequence` if that is earlier.
  absl::StatusOr<HistorySource> History(std::optional<std::int64_t> up_to_sequence);

  // Ends a study as CANCELLED, with the best plan so far if there is one. Idempotent: a study that
  // has ended does not change.
  absl::StatusOr<StudyRecord> CancelStudy(std::string_view id);

  // Stops a study until it is resumed, also by another process. It is still running while it stops,
  // and a job of it goes on to its end. Idempotent. FAILED_PRECONDITION with reason STUDY_ENDED or
  // STUDY_CANCELLING.
  absl::StatusOr<StudyRecord> PauseStudy(std::string_view id);
  // Queues a paused study. A study that waits or runs does not change. Same errors.
  absl::StatusOr<StudyRecord> ResumeStudy(std::string_view id);

  // Deletes a study that has ended, as Recorder::DeleteStudy. Returns what `encode` makes of it, or
  // what it made when the same call came first.
  absl::StatusOr<std::string> DeleteStudy(
      const StudyDeletion& deletion, const CallKey& call,
      const std::function<std::string(const DeletedStudy&)>& encode);

  // Queues a study to run failed trials again, as Recorder::ReopenStudy. Returns as DeleteStudy
  // does. PERMISSION_DENIED with reason JOBS_NOT_ALLOWED as CreateStudy.
  absl::StatusOr<std::string> RetryTrials(
      StudyReopening reopening, const CallKey& call,
      const std::function<std::string(const ReopenedStudy&)>& encode);

  // Replays the journal after `after_revision`, then follows it. There is no gap and no repeat,
  // because both come from the journal. The replay calls `sink` before this returns.
  absl::StatusOr<std::int64_t> Subscribe(std::string_view id, std::int64_t after_revision,
                                         EventSink sink);
  // Returns once `sink` is no longer being called.
  void Unsubscribe(std::int64_t subscription);

  // Returns the store, for code that reads or writes it between two steps of the studies. Writes
  // that arrive together are made durable together (store.h).
  [[nodiscard]] const StoreAccess& store() const;

  // Returns the queries that answer what clients ask of the store.
  [[nodiscard]] const HistoryQueries& queries() const;

  // Returns the answers that it remembers. They last as long as the engine.
  [[nodiscard]] AnswerMemory& answers() const;

  [[nodiscard]] StudyLoad load() const;

  // Returns EngineHooks.on_measurement, for calls that store measurements themselves.
  [[nodiscard]] const std::function<void(const MeasurementRecord&)>& measurement_listener() const;

  // Returns UNAVAILABLE with reason STORE_LOST while the store's file is not where it was opened;
  // then nothing is written. On a store that several servers share, returns why it cannot be read
  // or written, or UNAVAILABLE with reason LEASE_LOST if this engine's studies are no longer its
  // own; does not wait for the store.
  [[nodiscard]] absl::Status CheckStore() const;

  // Returns the longest time for which one group of writes kept others waiting.
  [[nodiscard]] std::chrono::duration<double> longest_store_hold() const;

  // Returns true if this engine runs the jobs of studies.
  [[nodiscard]] bool allows_jobs() const;

  [[nodiscard]] int schema_version() const;

 private:
  explicit Engine(std::unique_ptr<EngineState> state);
  std::unique_ptr<EngineState> state_;
};

}  // namespace meshwright
