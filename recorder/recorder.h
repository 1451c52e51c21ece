#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/call_records.h"
#include "recorder/history_records.h"
#include "recorder/leases.h"
#include "recorder/records.h"
#include "recorder/sql/connection.h"
#include "recorder/store/opened_store.h"
#include "recorder/store/schema.h"
#include "recorder/store/store_lock.h"
#include "recorder/transfer.h"
#include "recorder/trial_records.h"

namespace meshwright {

struct InsertedStudy {
  StudyRecord study = {};
  bool is_new = true;  // false: the same request stored it before
};

struct StudyPage {
  std::vector<StudyRecord> studies = {};
  std::string next_page_token = {};  // empty on the last page
};

struct PlanPage {
  std::vector<PlanRecord> plans = {};
  std::string next_page_token = {};
};

// Returns true unless the address names a store in memory or on a PostgreSQL server.
bool IsStoreFile(std::string_view address);

class Recorder;
using StoreCall = std::function<absl::Status(Recorder&)>;

// The durable history (docs/store.md), in an SQLite file that one process writes and any number of
// processes read, or on a PostgreSQL server, where any number of processes write: studies with
// their ranked plans, trials and journals, measurements, and calibrations. Acknowledged calls
// survive a crash of the process and the machine. Each call is one transaction, so storing many
// records per call is faster. A Recorder is used by one thread at a time: a server has one for its
// writer thread and one (read_only) for each of its readers. It starts no threads and reads no
// clock. Lists take a page_size (0 is 50, at most 1000) and the next_page_token of the previous
// page; rows that arrive meanwhile neither repeat nor hide others. A token is bound to its list,
// filter and order: any other token is INVALID_ARGUMENT with reason INVALID_PAGE_TOKEN.
class Recorder {
 public:
  // Opens a store. Reasons of errors: STORE_IN_USE, FOREIGN_STORE, NEWER_STORE,
  // NETWORK_FILE_SYSTEM, STORE_CORRUPT, STORE_IO; INVALID_ARGUMENT if an address cannot be read or
  // holds a password. A reader can also get NO_STORE (NOT_FOUND) and
  // OLDER_STORE, because only a writer creates and upgrades stores.
  static absl::StatusOr<Recorder> Open(const OpenOptions& options);

  Recorder(Recorder&&) noexcept = default;
  Recorder& operator=(Recorder&& other) noexcept;

  // Stores a new study with its first event; ignores the record's revision. If the request_id
  // exists, returns the study that it made, provided that the request_hash is the same; otherwise
  // INVALID_ARGUMENT with reason REQUEST_ID_REUSED. ALREADY_EXISTS if the id is used.
  // FAILED_PRECONDITION with reason STUDY_DELETED if the request or the id made a study that was
  // deleted.
  absl::StatusOr<InsertedStudy> InsertStudy(const StudyRecord& study);

  // Changes the state of a living study, adds it to the journal and returns the changed study.
  // FAILED_PRECONDITION: STUDY_ENDED for a terminal study, STUDY_CANCELLING if the update would
  // revive a study that is being cancelled. Cancelling it again changes nothing.
  absl::StatusOr<StudyRecord> UpdateStudy(const StudyUpdate& update);

  // Ends a study: stores its state, answer, plans and last events at once. STUDY_ENDED as above;
  // ALREADY_EXISTS with reason PLAN_EXISTS for two plans of one rank.
  absl::StatusOr<StudyRecord> FinishStudy(const StudyEnding& ending);

  // Changes what people say about a study, in any state, and returns the changed study. ABORTED
  // with reason STALE_STUDY if somebody else changed it since; INVALID_ARGUMENT with reason
  // TOO_MANY_LABELS for more than kMaxStudyLabels.
  absl::StatusOr<StudyRecord> EditStudy(const StudyEdit& edit);

  // Deletes a study that has ended with all its rows, except for its measurements. Its id and its
  // request_id are never used again. FAILED_PRECONDITION with reason STUDY_NOT_ENDED; ABORTED as
  // EditStudy.
  absl::StatusOr<DeletedStudy> DeleteStudy(const StudyDeletion& deletion);

  // Opens failed trials of a study that has ended, is paused or was interrupted, and takes its
  // answer away: it is to be run again. The measurement of a trial counts until the trial ends
  // anew. FAILED_PRECONDITION: STUDY_NOT_ENDED; TRIAL_NOT_FAILED for a stated trial that has ended
  // well, has not ended, or repeats another; NO_FAILED_TRIALS if none is stated and none has
  // failed. NOT_FOUND: UNKNOWN_TRIAL. ABORTED as EditStudy.
  absl::StatusOr<ReopenedStudy> ReopenStudy(const StudyReopening& reopening);

  // Returns what `work` returns and keeps it, or what it returned for the same call before.
  // INVALID_ARGUMENT with reason REQUEST_ID_REUSED if the request_id belongs to another call. The
  // changes of `work` are stored with its answer, or not at all.
  absl::StatusOr<std::string> AnswerOnce(const CallKey& key,
                                         const std::function<absl::StatusOr<std::string>()>& work);
  // Returns the answer that AnswerOnce has kept for a call; nullopt if it is new. Same error.
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> FirstAnswer(const CallKey& key) const;

  // Stores who has called what; ignores the sequence.
  absl::Status AppendAuditEvent(const AuditRecord& event);

  // Lists who has called what, newest first.
  [[nodiscard]] absl::StatusOr<AuditPage> ListAuditEvents(const AuditFilter& filter, int page_size,
                                                          std::string_view page_token) const;

  // Deletes events from before a time, some at a time, and returns their number; 0: none is left.
  absl::StatusOr<std::int64_t> DeleteAuditEvents(std::int64_t before_ms);

  // Stores all events or none; returns the revisions, in the events' order.
  absl::StatusOr<std::vector<std::int64_t>> AppendEvents(std::span<const EventRecord> events);

  [[nodiscard]] absl::StatusOr<StudyRecord> GetStudy(std::string_view id) const;

  // Lists studies, newest first, by create time and then id; without `question` and `result`, to
  // keep lists small.
  [[nodiscard]] absl::StatusOr<StudyPage> ListStudies(int page_size, std::string_view page_token,
                                                      const StudyFilter& filter = {}) const;

  // Counts the studies of a creator that have not ended.
  [[nodiscard]] absl::StatusOr<std::int64_t> CountOpenStudies(std::string_view creator) const;

  // Returns the device time that the jobs of a creator's studies took since a moment, and the time
  // that they may still take.
  [[nodiscard]] absl::StatusOr<CreatorUse> UseOf(std::string_view creator,
                                                 std::int64_t since_ms) const;

  // Lists plans by rank, with the baseline (0) first.
  [[nodiscard]] absl::StatusOr<PlanPage> ListPlans(std::string_view study_id, int page_size,
                                                   std::string_view page_token) const;

  // Returns a plan by its rank, or nullopt if the study has none. NOT_FOUND: UNKNOWN_STUDY.
  [[nodiscard]] absl::StatusOr<std::optional<PlanRecord>> FindPlan(std::string_view study_id,
                                                                   int rank) const;

  // Returns the number of plans that a study has. NOT_FOUND: UNKNOWN_STUDY.
  [[nodiscard]] absl::StatusOr<std::int64_t> CountPlans(std::string_view study_id) const;

  // Returns the journal after a revision (0: from its start), oldest first. `limit` is as
  // page_size.
  [[nodiscard]] absl::StatusOr<std::vector<EventRecord>> ListEvents(std::string_view study_id,
                                                                    std::int64_t after_revision,
                                                                    int limit) const;

  // Returns the revision of the newest event of each study that is there and has one.
  [[nodiscard]] absl::StatusOr<std::map<std::string, std::int64_t>> LastRevisions(
      std::span<const std::string> study_ids) const;

  // Makes every queued, running or cancelling study whose owner is not alive interrupted, or
  // cancelled if it was cancelling, with an event; returns these studies. A study that
  // `has_job_left` stays cancelling, because its job must still be ended. Called when a process
  // starts.
  absl::StatusOr<std::vector<StudyRecord>> InterruptOrphans(
      const std::function<bool(std::string_view owner)>& is_alive, std::int64_t time_ms,
      const std::function<bool(const std::string& id)>& has_job_left = {});

  // Does the same for the studies whose leases have expired by the store's clock. One that
  // `has_job_left` may be claimed at once.
  absl::StatusOr<std::vector<StudyRecord>> InterruptExpired(
      std::int64_t time_ms, const std::function<bool(const std::string& id)>& has_job_left);

  // Returns true if a lease has expired, or a study is interrupted.
  [[nodiscard]] absl::StatusOr<bool> HasAbandonedStudies() const;

  // Leases a study that is queued, which is running from then on, or one that is being cancelled
  // and that nobody has. FAILED_PRECONDITION with reason STUDY_TAKEN for any other. Every earlier
  // lease of it is stale. NOT_FOUND: UNKNOWN_STUDY.
  absl::StatusOr<ClaimedStudy> ClaimStudy(const StudyClaim& claim);

  // Returns the state of a leased study. FAILED_PRECONDITION with reason STALE_LEASE if another
  // process has claimed it since, or if it was given back or deleted. Within a call of RunTogether
  // nobody can claim it before the call's changes are stored. A lease that has expired holds until
  // InterruptExpired.
  [[nodiscard]] absl::StatusOr<LeaseStanding> CheckLease(const StudyLease& lease) const;
  // Returns the same for several leases, in their order.
  [[nodiscard]] absl::StatusOr<std::vector<LeaseStanding>> ReadLeases(
      std::span<const StudyLease> leases) const;

  // Lets leases expire `lease_ms` from now by the store's clock. Returns for each if it is held.
  absl::StatusOr<std::vector<bool>> RenewLeases(std::span<const StudyLease> leases,
                                                std::int64_t lease_ms);

  // Gives a lease back and leaves its study as it is. STALE_LEASE as CheckLease.
  absl::Status ReleaseLease(const StudyLease& lease);

  // Returns true if some process has the study. A study that is not there is leased to nobody.
  [[nodiscard]] absl::StatusOr<bool> IsLeased(std::string_view study_id) const;

  // Notes for the process that runs a study that somebody wants it to pause, or no longer does. The
  // note goes when the study stops or ends.
  absl::Status SetPauseWanted(std::string_view study_id, bool is_wanted);

  // Returns the ids of the studies that ClaimStudy takes: the oldest of each creator first, then
  // the second of each, and so on.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> ListClaimable() const;

  // Returns the interrupted studies, the oldest first.
  [[nodiscard]] absl::StatusOr<std::vector<InterruptedStudy>> ListInterrupted() const;

  // Makes interrupted studies queued, with an event each, and `owner` their owner. Thousands take
  // a fraction of a second.
  absl::Status RequeueStudies(std::span<const std::string> ids, std::string_view owner,
                              std::int64_t time_ms);

  // Sets the number of the last measurement that the study may learn from, and returns the number
  // that was set first.
  absl::StatusOr<std::int64_t> SetStudyHistory(std::string_view study_id, std::int64_t sequence);

  // Stores a trial and its first attempt before anything is submitted. ALREADY_EXISTS with reason
  // TRIAL_EXISTS for a plan_digest that the study has tried. STUDY_ENDED as above.
  absl::StatusOr<BegunTrial> BeginTrial(const TrialIntent& intent);

  // Stores another attempt at a trial. FAILED_PRECONDITION: TRIAL_ENDED.
  absl::StatusOr<AttemptRecord> AddAttempt(const AttemptIntent& intent);

  // Changes the state of an attempt. FAILED_PRECONDITION: ATTEMPT_ENDED, STALE_TOKEN (not the
  // attempt's token, or a newer attempt has begun), ATTEMPT_STATE for a step back. NOT_FOUND:
  // UNKNOWN_ATTEMPT.
  absl::StatusOr<AttemptRecord> UpdateAttempt(const AttemptUpdate& update);

  // Ends an attempt; its trial stays open for another. Repeating the same ending changes nothing, a
  // different one is ATTEMPT_ENDED. STALE_TOKEN as above.
  absl::StatusOr<AttemptRecord> FinishAttempt(const AttemptEnding& ending);

  // Ends a trial in one transaction (the attempt may have ended in the same way before). Repeating
  // the same ending changes nothing; a different one is FAILED_PRECONDITION with reason TRIAL_ENDED
  // or ATTEMPT_ENDED. STALE_TOKEN as above. A study that has ended meanwhile still accepts the ends
  // of its trials, so that their measurements are kept.
  absl::StatusOr<EndedTrial> FinishTrial(const TrialEnding& ending);

  [[nodiscard]] absl::StatusOr<TrialPage> ListTrials(const TrialFilter& filter, TrialOrder order,
                                                     int page_size,
                                                     std::string_view page_token) const;

  // Returns a trial. NOT_FOUND: UNKNOWN_STUDY, UNKNOWN_TRIAL.
  [[nodiscard]] absl::StatusOr<TrialRecord> GetTrial(std::string_view study_id, int number) const;

  // Lists the measured trials that no other trial of the study beats in step time and peak memory
  // at once, by growing step time. Trials whose memory was not measured are left out. A trial that
  // ends between two pages may beat one of an earlier page.
  [[nodiscard]] absl::StatusOr<TrialPage> ListParetoTrials(std::string_view study_id, int page_size,
                                                           std::string_view page_token) const;

  // Counts the jobs of all studies by their launchers, sorted by name. A launcher without open jobs
  // is left out.
  [[nodiscard]] absl::StatusOr<std::vector<OpenJobs>> CountOpenJobs() const;

  // Lists all attempts at a trial, or at all trials of the study, in their order. NOT_FOUND:
  // UNKNOWN_STUDY, UNKNOWN_TRIAL.
  [[nodiscard]] absl::StatusOr<std::vector<AttemptRecord>> ListAttempts(
      std::string_view study_id, std::optional<int> trial_number) const;

  // Stores all measurements or none, in the given order, without retractions. If a request_id
  // exists, returns the measurement that it made, provided that the request_hash is the same;
  // otherwise INVALID_ARGUMENT with reason REQUEST_ID_REUSED. ALREADY_EXISTS with reason
  // MEASUREMENT_EXISTS if an id is used.
  absl::StatusOr<std::vector<InsertedMeasurement>> InsertMeasurements(
      std::span<const MeasurementRecord> measurements);

  // Returns a measurement with its question's bytes. NOT_FOUND: UNKNOWN_MEASUREMENT.
  [[nodiscard]] absl::StatusOr<MeasurementRecord> GetMeasurement(std::string_view id) const;

  // Returns, for each given measurement, the stored one with the same id, or nullopt.
  [[nodiscard]] absl::StatusOr<std::vector<std::optional<MeasurementRecord>>> FindMeasurements(
      std::span<const MeasurementRecord> like) const;

  // Returns the measurement that the request made, or nullopt.
  [[nodiscard]] absl::StatusOr<std::optional<MeasurementRecord>> FindMeasurementOfRequest(
      std::string_view request_id) const;

  // Marks a measurement as wrong from the next sequence on, and returns it. Ignores the sequence of
  // `retraction`. Repeating it with the same reason returns what is stored; another reason is
  // ALREADY_EXISTS with reason MEASUREMENT_RETRACTED. INVALID_ARGUMENT for a bad reason. NOT_FOUND:
  // UNKNOWN_MEASUREMENT.
  absl::StatusOr<MeasurementRecord> RetractMeasurement(std::string_view id,
                                                       const Retraction& retraction);

  [[nodiscard]] absl::StatusOr<MeasurementPage> ListMeasurements(const MeasurementFilter& filter,
                                                                 MeasurementOrder order,
                                                                 int page_size,
                                                                 std::string_view page_token) const;

  // Returns the sequence of the last measurement or retraction; 0 if there is none.
  [[nodiscard]] absl::StatusOr<std::int64_t> LastMeasurementSequence() const;

  // Returns the sequence of the last measurement on a chip under a framework, or of the last
  // retraction of any, up to a sequence; 0 if there is neither.
  [[nodiscard]] absl::StatusOr<std::int64_t> LastSequenceOf(std::string_view chip,
                                                            std::string_view framework,
                                                            std::int64_t up_to_sequence) const;

  // Returns a question. NOT_FOUND: UNKNOWN_QUESTION.
  [[nodiscard]] absl::StatusOr<QuestionRecord> GetQuestion(std::string_view digest) const;

  // Stores a calibration. If the id exists, nothing changes, since the id is a digest of the
  // calibration's inputs.
  absl::Status InsertCalibration(const CalibrationRecord& calibration);

  // Returns a calibration. NOT_FOUND: UNKNOWN_CALIBRATION.
  [[nodiscard]] absl::StatusOr<CalibrationRecord> GetCalibration(std::string_view id) const;

  // Lists calibrations, newest first, without `content`. If `chip` is absent, lists those of all
  // chips.
  [[nodiscard]] absl::StatusOr<CalibrationPage> ListCalibrations(
      const std::optional<std::string>& chip, int page_size, std::string_view page_token) const;

  // Deletes the estimates of the next few studies, by id after `after_study`, that ended before a
  // time. These are the ranked plans except the baseline (0) and the best (1), and the journal
  // except changes of state. Measurements stay. The caller continues after `last_study` until that
  // is empty, so that others can use the store meanwhile.
  absl::StatusOr<DeletedEstimates> DeleteEstimates(std::int64_t before_ms,
                                                   std::string_view after_study = "");

  // Exports measurements with their questions and the calibrations that they name, as lines without
  // line ends (transfer.h), the oldest first. The export is a consistent snapshot, even while
  // others write. Stops with the sink's error.
  absl::Status Export(const MeasurementFilter& filter, const LineSink& sink) const;

  // Stores a part of an import (import.h), all or none. Rows that are here with the same content
  // are skipped; other content is ALREADY_EXISTS with reason IMPORT_CONFLICT, or is ignored under
  // kKeep. A row that is here without the retraction that it has in the import is retracted.
  absl::StatusOr<ImportCounts> InsertImported(std::span<const CalibrationRecord> calibrations,
                                              std::span<const MeasurementRecord> measurements,
                                              ConflictPolicy policy);

  // Writes a consistent copy into a new file, while others read and write. ALREADY_EXISTS if the
  // file exists; CANCELLED, without a file, once a stop is requested.
  absl::Status Backup(const std::string& path, const std::stop_token& stop = {}) const;

  // Runs calls one after the other and makes all of them durable with one sync. Returns the status
  // of each call, or the reason for which it was not stored after all. A call may call the Recorder
  // more than once; if it fails, all its changes are undone, and those of the others stay.
  std::vector<absl::Status> RunTogether(std::span<const StoreCall> calls);

  // Returns the path of the store's file, or its address postgresql://...; empty for ":memory:".
  [[nodiscard]] const std::string& path() const { return address_; }

  [[nodiscard]] int schema_version() const { return kSchemaVersion; }

 private:
  explicit Recorder(OpenedStore opened);

  StoreLock lock_;  // released after the connection is closed
  std::unique_ptr<Connection> connection_;
  std::string address_;
};

}  // namespace meshwright
