#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/call_records.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "recorder/transfer.h"
#include "recorder/trial_records.h"
#include "server/engine/engine_options.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {

// Job reports, with a warning for each chip and framework among them that has drifted.
struct JobReportPage {
  MeasurementPage page = {};
  std::vector<std::string> warnings = {};
};

struct BackupFile {
  std::string name = {};  // without its folder
  std::int64_t size_bytes = 0;
};

// Answers what clients ask of a store, which a server or a command has open. Each question borrows
// a Recorder that sees what is committed. May be used from any thread if the access may.
class HistoryQueries {
 public:
  explicit HistoryQueries(StoreAccess store) : store_(std::move(store)) {}

  // These work like the Recorder's calls of the same names.
  [[nodiscard]] absl::StatusOr<StudyRecord> GetStudy(std::string_view id) const;
  [[nodiscard]] absl::StatusOr<StudyPage> ListStudies(int page_size, std::string_view page_token,
                                                      const StudyFilter& filter = {}) const;
  [[nodiscard]] absl::StatusOr<std::vector<OpenJobs>> CountOpenJobs() const;
  [[nodiscard]] absl::StatusOr<std::int64_t> CountOpenStudies(std::string_view creator) const;
  [[nodiscard]] absl::StatusOr<CreatorUse> UseOf(std::string_view creator,
                                                 std::int64_t since_ms) const;
  [[nodiscard]] absl::StatusOr<PlanPage> ListPlans(std::string_view study_id, int page_size,
                                                   std::string_view page_token) const;
  [[nodiscard]] absl::StatusOr<TrialPage> ListTrials(const TrialFilter& filter, TrialOrder order,
                                                     int page_size,
                                                     std::string_view page_token) const;
  [[nodiscard]] absl::StatusOr<std::optional<PlanRecord>> FindPlan(std::string_view study_id,
                                                                   int rank) const;
  [[nodiscard]] absl::StatusOr<TrialRecord> GetTrial(std::string_view study_id, int number) const;
  [[nodiscard]] absl::StatusOr<TrialPage> ListParetoTrials(std::string_view study_id, int page_size,
                                                           std::string_view page_token) const;
  [[nodiscard]] absl::StatusOr<std::vector<AttemptRecord>> ListAttempts(
      std::string_view study_id, std::optional<int> trial_number) const;
  [[nodiscard]] absl::StatusOr<MeasurementRecord> GetMeasurement(std::string_view id) const;
  [[nodiscard]] absl::StatusOr<MeasurementPage> ListMeasurements(const MeasurementFilter& filter,
                                                                 MeasurementOrder order,
                                                                 int page_size,
                                                                 std::string_view page_token) const;
  [[nodiscard]] absl::StatusOr<CalibrationRecord> GetCalibration(std::string_view id) const;
  [[nodiscard]] absl::StatusOr<CalibrationPage> ListCalibrations(
      const std::optional<std::string>& chip, int page_size, std::string_view page_token) const;
  [[nodiscard]] absl::Status Export(const MeasurementFilter& filter, const LineSink& sink) const;

  [[nodiscard]] absl::StatusOr<AuditPage> ListAuditEvents(const AuditFilter& filter, int page_size,
                                                          std::string_view page_token) const;

  // Lists, newest first, the measurements that came as job reports and pass the filter. The sources
  // that the filter states are ignored. `knowledge` and `codec` tell which runs count as drift.
  [[nodiscard]] absl::StatusOr<JobReportPage> ListJobReports(MeasurementFilter filter,
                                                             int page_size,
                                                             std::string_view page_token,
                                                             const Knowledge& knowledge,
                                                             const StudyCodec& codec) const;

  // Copies the store to a new file while others read and write: "history-LABEL.db" for
  // "history.db", in a folder or, if none is given, beside the store. Returns FAILED_PRECONDITION
  // for a store in memory, UNIMPLEMENTED for one on PostgreSQL, CANCELLED once a stop is requested.
  [[nodiscard]] absl::StatusOr<BackupFile> Backup(std::string_view label,
                                                  const std::string& folder = {},
                                                  const std::stop_token& stop = {}) const;

 private:
  const StoreAccess store_;
};

}  // namespace meshwright
