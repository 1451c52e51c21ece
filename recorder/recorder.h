#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "recorder/records.h"
#include "recorder/sql.h"
#include "recorder/store_lock.h"
#include "recorder/transfer.h"
#include "recorder/trial_records.h"

namespace meshwright {

struct OpenOptions {
  std::string path = {};   // ":memory:" is a store that ends with the Recorder
  bool read_only = false;  // takes no lock and creates nothing; sees what is committed
  std::chrono::milliseconds lock_wait = std::chrono::milliseconds(0);
  std::string who = "meshwright";  // what another process reads about the holder of the lock
};

struct InsertedStudy {
  StudyRecord study = {};
  bool is_new = true;  // false: the same request made it before
};

struct StudyPage {
  std::vector<StudyRecord> studies = {};
  std::string next_page_token = {};  // empty on the last page
};

struct PlanPage {
  std::vector<PlanRecord> plans = {};
  std::string next_page_token = {};
};

class Recorder;
using StoreCall = std::function<absl::Status(Recorder&)>;

// The durable history: studies, their ranked plans, trials and journals, what was measured and what
// was learnt from it, in one SQLite file (docs/store.md). One process writes, any number reads.
// What a call has acknowledged survives the process and the machine; each call is one transaction,
// so many records a call is the fast way. Used by one thread at a time: a server gives its writer
// thread one Recorder and its readers others (read_only), each its own. Starts no thread and reads
// no clock. Lists take a page_size (0 is 50, at most 1000) and the next_page_token of the page
// before; rows that arrive meanwhile neither repeat nor hide others. A token is bound to its list,
// filter and order: another one is INVALID_ARGUMENT with reason INVALID_PAGE_TOKEN.
class Recorder {
 public:
  // Errors, by reason: STORE_IN_USE, FOREIGN_STORE, NEWER_STORE, NETWORK_FILE_SYSTEM,
  // STORE_CORRUPT, STORE_IO; for a reader also NO_STORE (NOT_FOUND) and OLDER_STORE, because only a
  // writer creates and upgrades.
  static absl::StatusOr<Recorder> Open(const OpenOptions& options);

  Recorder(Recorder&&) noexcept = default;
  Recorder& operator=(Recorder&& other) noexcept;

  // Stores a new study with its first event; the record's revision is not looked at. A request_id
  // that is there gives the study it made when the request_hash is the same, else INVALID_ARGUMENT
  // with reason REQUEST_ID_REUSED. A used id: ALREADY_EXISTS.
  absl::StatusOr<InsertedStudy> InsertStudy(const StudyRecord& study);

  // Changes the state of a living study and journals it; gives the study as it then is.
  // FAILED_PRECONDITION: STUDY_ENDED for a terminal study, STUDY_CANCELLING when a study that is
  // being cancelled would live on. Cancelling it once more changes nothing.
  absl::StatusOr<StudyRecord> UpdateStudy(const StudyUpdate& update);

  // Ends a study: state, answer, plans and last events at once. STUDY_ENDED as above.
  absl::StatusOr<StudyRecord> FinishStudy(const StudyEnding& ending);

  // All or none. Unknown study: NOT_FOUND; a rank that is there: ALREADY_EXISTS.
  absl::Status AppendPlans(std::span<const PlanRecord> plans);

  // All or none; gives the revisions, in the events' order.
  absl::StatusOr<std::vector<std::int64_t>> AppendEvents(std::span<const EventRecord> events);

  [[nodiscard]] absl::StatusOr<StudyRecord> GetStudy(std::string_view id) const;

  // Newest first, by create time, then id; without `question` and `result`, to keep lists small.
  [[nodiscard]] absl::StatusOr<StudyPage> ListStudies(int page_size,
                                                      std::string_view page_token) const;

  // By rank, the baseline (0) first.
  [[nodiscard]] absl::StatusOr<PlanPage> ListPlans(std::string_view study_id, int page_size,
                                                   std::string_view page_token) const;

  // The journal after a revision (0: from its start), oldest first. limit: as page_size.
  [[nodiscard]] absl::StatusOr<std::vector<EventRecord>> ListEvents(std::string_view study_id,
                                                                    std::int64_t after_revision,
                                                                    int limit) const;

  // Every queued, running or cancelling study whose owner is not alive becomes interrupted, or
  // cancelled if it was cancelling, with an event; gives those studies. One that `has_job_left`
  // stays cancelling: its job is still to be ended. For the start of a process.
  absl::StatusOr<std::vector<StudyRecord>> InterruptOrphans(
      const std::function<bool(std::string_view owner)>& is_alive, std::int64_t time_ms,
      const std::function<bool(const std::string& id)>& has_job_left = {});

  // The number of the last measurement that the study may learn from: the first one that was set.
  absl::StatusOr<std::int64_t> SetStudyHistory(std::string_view study_id, std::int64_t sequence);

  // Writes down a trial and its first attempt, before anything is submitted. ALREADY_EXISTS with
  // reason TRIAL_EXISTS for a plan_digest that the study has tried. STUDY_ENDED as above.
  absl::StatusOr<BegunTrial> BeginTrial(const TrialIntent& intent);

  // FAILED_PRECONDITION: TRIAL_ENDED.
  absl::StatusOr<AttemptRecord> AddAttempt(const AttemptIntent& intent);

  // FAILED_PRECONDITION: ATTEMPT_ENDED, STALE_TOKEN (not the attempt's, or a newer attempt has
  // begun), ATTEMPT_STATE for a step back. NOT_FOUND: UNKNOWN_ATTEMPT.
  absl::StatusOr<AttemptRecord> UpdateAttempt(const AttemptUpdate& update);

  // Ends an attempt; its trial stays open for another. The same ending twice changes nothing,
  // another one is ATTEMPT_ENDED. STALE_TOKEN as above.
  absl::StatusOr<AttemptRecord> FinishAttempt(const AttemptEnding& ending);

  // Ends a trial, all in one transaction (the attempt may have ended the same way before). The same
  // ending twice changes nothing; another one is FAILED_PRECONDITION with reason TRIAL_ENDED or
  // ATTEMPT_ENDED. STALE_TOKEN as above. A study that has ended meanwhile still takes the ends of
  // its trials: what was measured is kept.
  absl::StatusOr<EndedTrial> FinishTrial(const TrialEnding& ending);

  [[nodiscard]] absl::StatusOr<TrialPage> ListTrials(const TrialFilter& filter, TrialOrder order,
                                                     int page_size,
                                                     std::string_view page_token) const;

  // All attempts at a trial, or at all trials of the study, in their order. NOT_FOUND:
  // UNKNOWN_STUDY, UNKNOWN_TRIAL.
  [[nodiscard]] absl::StatusOr<std::vector<AttemptRecord>> ListAttempts(
      std::string_view study_id, std::optional<int> trial_number) const;

  // All or none, in the order given. A request_id that is there gives what it made when the
  // request_hash is the same, else INVALID_ARGUMENT with reason REQUEST_ID_REUSED. A used id:
  // ALREADY_EXISTS with reason MEASUREMENT_EXISTS.
  absl::StatusOr<std::vector<InsertedMeasurement>> InsertMeasurements(
      std::span<const MeasurementRecord> measurements);

  // With the question's bytes. NOT_FOUND: UNKNOWN_MEASUREMENT.
  [[nodiscard]] absl::StatusOr<MeasurementRecord> GetMeasurement(std::string_view id) const;

  // Returns, for each of them, the measurement that has its id here, if there is one.
  [[nodiscard]] absl::StatusOr<std::vector<std::optional<MeasurementRecord>>> FindMeasurements(
      std::span<const MeasurementRecord> like) const;

  [[nodiscard]] absl::StatusOr<MeasurementPage> ListMeasurements(const MeasurementFilter& filter,
                                                                 MeasurementOrder order,
                                                                 int page_size,
                                                                 std::string_view page_token) const;

  // 0 when there is none.
  [[nodiscard]] absl::StatusOr<std::int64_t> LastMeasurementSequence() const;

  // NOT_FOUND: UNKNOWN_QUESTION.
  [[nodiscard]] absl::StatusOr<QuestionRecord> GetQuestion(std::string_view digest) const;

  // An id that is there changes nothing, since it says what the calibration was made of.
  absl::Status InsertCalibration(const CalibrationRecord& calibration);

  // NOT_FOUND: UNKNOWN_CALIBRATION.
  [[nodiscard]] absl::StatusOr<CalibrationRecord> GetCalibration(std::string_view id) const;

  // Newest first, without `content`. `chip`: absent lists all.
  [[nodiscard]] absl::StatusOr<CalibrationPage> ListCalibrations(
      const std::optional<std::string>& chip, int page_size, std::string_view page_token) const;

  // Forgets what was only estimated by the next few studies, by id after `after_study`, that ended
  // before: ranked plans, but for the baseline (0) and the best (1), and the journal but for the
  // changes of state. What was measured stays. The caller goes on after `last_study` until that is
  // empty, so that others get to the store meanwhile.
  absl::StatusOr<DeletedEstimates> DeleteEstimates(std::int64_t before_ms,
                                                   std::string_view after_study = "");

  // Measurements with their questions and the calibrations that they name, as lines without line
  // ends (transfer.h), the oldest first. Of one moment, while others write. Stops with the sink's
  // error.
  absl::Status Export(const MeasurementFilter& filter, const LineSink& sink) const;

  // Stores a part of an import (import.h), all or none: what is here with the same content is
  // skipped; other content is ALREADY_EXISTS with reason IMPORT_CONFLICT, or stays under kKeep.
  absl::StatusOr<ImportCounts> InsertImported(std::span<const CalibrationRecord> calibrations,
                                              std::span<const MeasurementRecord> measurements,
                                              ConflictPolicy policy);

  // A consistent copy into a new file, while others read and write. ALREADY_EXISTS if it is there.
  absl::Status Backup(const std::string& path) const;

  // Runs calls one after the other and makes all of them durable at once, with one sync: what each
  // call gave, or why it is not stored after all. A call may call the Recorder more than once; if
  // it fails, all that it did is undone, and nothing of the others.
  std::vector<absl::Status> RunTogether(std::span<const StoreCall> calls);

  // Of its file; empty for ":memory:".
  [[nodiscard]] std::string path() const;

  [[nodiscard]] int schema_version() const { return schema_version_; }

 private:
  Recorder(StoreLock lock, Connection connection, int schema_version);
  static absl::StatusOr<Recorder> OpenReader(const std::string& path);
  static absl::StatusOr<Recorder> OpenWriter(const std::string& path, const OpenOptions& options);

  StoreLock lock_;  // released after the connection is closed
  Connection connection_;
  int schema_version_;
};

}  // namespace meshwright
