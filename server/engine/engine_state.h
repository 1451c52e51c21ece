#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "recorder/leases.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "server/engine/answer_memory.h"
#include "server/engine/engine_options.h"
#include "server/engine/followers.h"
#include "server/engine/history_memory.h"
#include "server/engine/history_queries.h"
#include "server/engine/queue/lease_keeper.h"
#include "server/engine/queue/study_queue.h"
#include "server/engine/store.h"
#include "server/process/owner.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The studies of an engine: those that wait, and the threads that run them.
struct EngineState {
  EngineState(Recorder recorder_in, const Knowledge& knowledge_in, StudyCodec codec_in,
              EngineHooks hooks_in)
      : knowledge(knowledge_in),
        codec(std::move(codec_in)),
        hooks(std::move(hooks_in)),
        store(std::move(recorder_in), hooks.on_store_write) {}

  [[nodiscard]] absl::Status WriteAs(const StudyLease& lease,
                                     const std::function<absl::Status(Recorder&)>& call);
  absl::StatusOr<InsertedStudy> Insert(StudyRecord record, const CreateStudyOptions& options) const;
  void Run(Lane lane, const std::stop_token& stop);
  std::optional<WaitingStudy> NextStudy(Lane lane, const std::stop_token& stop);
  absl::StatusOr<ResolvedStudy> Begin(const std::string& id, StudyLease& lease);
  absl::StatusOr<ClaimedStudy> Claim(const std::string& id, ResolvedStudy* study,
                                     std::optional<absl::Status>& failure);
  HistorySource HistoryUpTo(std::int64_t sequence);
  void RunOne(const WaitingStudy& waiting);
  absl::StatusOr<StudyAnswer> Answer(const StudyLease& lease, const ResolvedStudy& study,
                                     std::optional<Progress>& unsaved_progress);
  absl::StatusOr<StudyAnswer> Try(const StudyLease& lease, const ResolvedStudy& study,
                                  StudyControl control);
  void AppendProgress(const StudyLease& lease, const Progress& progress);
  [[nodiscard]] EventRecord ProgressEvent(const std::string& id, const Progress& progress) const;
  void Queue(WaitingStudy study);
  absl::StatusOr<StudyRecord> Record(const StudyRecord& record,
                                     const std::optional<CalibrationRecord>& calibration,
                                     const StudyEnding& ending) const;
  absl::StatusOr<StudyRecord> Cancel(std::string_view id, std::optional<std::stop_source>& cancel);
  absl::StatusOr<StudyRecord> Pause(std::string_view id, std::optional<RunningStudy>& to_stop);
  absl::StatusOr<StudyRecord> Resume(std::string_view id);
  absl::Status Save(const StudyLease& lease, StudyEnding& ending, bool was_cut, bool& goes_on);
  void Conclude(const StudyLease& lease, StudyEnding ending, bool was_cut);
  void StopLost(const StudyLease& lease);
  absl::Status MayAct(const StudyLease& lease);
  bool IsPatient(const StudyLease& lease);
  void RetryLater(const WaitingStudy& study, const absl::Status& why);
  void Report(const std::string& id, const absl::Status& status) const {
    if (!status.ok() && hooks.on_error) hooks.on_error(id, status);
  }

  const Knowledge& knowledge;
  const StudyCodec codec;
  const EngineHooks hooks;

  Store store;
  // Other servers may run studies of the store as well.
  const bool is_shared = store.is_shared();
  const std::string owner = is_shared ? OwnOwnerAmongHosts() : OwnOwner();
  const StoreAccess access = store.Access();
  const HistoryQueries queries{access};
  Followers followers{access};
  AnswerMemory answers{access, codec, kMaxAnswerMemoryBytes, is_shared};
  HistoryMemory history{access, knowledge, codec};

  // Guards what follows. A change of a study in the store and in the queue is one step, so the
  // mutex is held while the store is written. Reading the store does not need it.
  std::mutex mutex;
  std::condition_variable_any changed;
  StudyQueue studies;
  bool is_stopping = false;

  std::atomic<int> lost_count = 0;      // studies that another server has and that still stop here
  std::unique_ptr<LeaseKeeper> keeper;  // null: the store has one owner

  std::vector<std::jthread> threads;  // last, because they use all members above
};

}  // namespace meshwright
