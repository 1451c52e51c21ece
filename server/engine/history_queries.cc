#include "server/engine/history_queries.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <system_error>

#include "search_space/base/status.h"
#include "server/engine/drift.h"
#include "server/engine/measured_rows.h"

namespace meshwright {

absl::StatusOr<StudyRecord> HistoryQueries::GetStudy(std::string_view id) const {
  return ReadFrom(store_, [&](const Recorder& recorder) { return recorder.GetStudy(id); });
}

absl::StatusOr<StudyPage> HistoryQueries::ListStudies(int page_size, std::string_view page_token,
                                                      const StudyFilter& filter) const {
  return ReadFrom(store_, [&](const Recorder& recorder) {
    return recorder.ListStudies(page_size, page_token, filter);
  });
}

absl::StatusOr<std::vector<OpenJobs>> HistoryQueries::CountOpenJobs() const {
  return ReadFrom(store_, [](const Recorder& recorder) { return recorder.CountOpenJobs(); });
}

absl::StatusOr<std::int64_t> HistoryQueries::CountOpenStudies(std::string_view creator) const {
  return ReadFrom(store_,
                  [&](const Recorder& recorder) { return recorder.CountOpenStudies(creator); });
}

absl::StatusOr<CreatorUse> HistoryQueries::UseOf(std::string_view creator,
                                                 std::int64_t since_ms) const {
  return ReadFrom(store_,
                  [&](const Recorder& recorder) { return recorder.UseOf(creator, since_ms); });
}

absl::StatusOr<PlanPage> HistoryQueries::ListPlans(std::string_view study_id, int page_size,
                                                   std::string_view page_token) const {
  return ReadFrom(store_, [&](const Recorder& recorder) {
    return recorder.ListPlans(study_id, page_size, page_token);
  });
}

absl::StatusOr<TrialPage> HistoryQueries::ListTrials(const TrialFilter& filter, TrialOrder order,
                                                     int page_size,
                                                     std::string_view page_token) const {
  return ReadFrom(store_, [&](const Recorder& recorder) {
    return recorder.ListTrials(filter, order, page_size, page_token);
  });
}

absl::StatusOr<std::optional<PlanRecord>> HistoryQueries::FindPlan(std::string_view study_id,
                                                                   int rank) const {
  return ReadFrom(store_,
                  [&](const Recorder& recorder) { return recorder.FindPlan(study_id, rank); });
}

absl::StatusOr<TrialRecord> HistoryQueries::GetTrial(std::string_view study_id, int number) const {
  return ReadFrom(store_,
                  [&](const Recorder& recorder) { return recorder.GetTrial(study_id, number); });
}

absl::StatusOr<TrialPage> HistoryQueries::ListParetoTrials(std::string_view study_id, int page_size,
                                                           std::string_view page_token) const {
  return ReadFrom(store_, [&](const Recorder& recorder) {
    return recorder.ListParetoTrials(study_id, page_size, page_token);
  });
}

absl::StatusOr<std::vector<AttemptRecord>> HistoryQueries::ListAttempts(
    std::string_view study_id, std::optional<int> trial_number) const {
  return ReadFrom(store_, [&](const Recorder& recorder) {
    return recorder.ListAttempts(study_id, trial_number);
  });
}

absl::StatusOr<MeasurementRecord> HistoryQueries::GetMeasurement(std::string_view id) const {
  return ReadFrom(store_, [&](const Recorder& recorder) { return recorder.GetMeasurement(id); });
}

absl::StatusOr<MeasurementPage> HistoryQueries::ListMeasurements(
    const MeasurementFilter& filter, MeasurementOrder order, int page_size,
    std::string_view page_token) const {
  return ReadFrom(store_, [&](const Recorder& recorder) {
    return recorder.ListMeasurements(filter, order, page_size, page_token);
  });
}

absl::StatusOr<CalibrationRecord> HistoryQueries::GetCalibration(std::string_view id) const {
  return ReadFrom(store_, [&](const Recorder& recorder) { return recorder.GetCalibration(id); });
}

absl::StatusOr<CalibrationPage> HistoryQueries::ListCalibrations(
    const std::optional<std::string>& chip, int page_size, std::string_view page_token) const {
  return ReadFrom(store_, [&](const Recorder& recorder) {
    return recorder.ListCalibrations(chip, page_size, page_token);
  });
}

absl::StatusOr<AuditPage> HistoryQueries::ListAuditEvents(const AuditFilter& filter, int page_size,
                                                          std::string_view page_token) const {
  return ReadFrom(store_, [&](const Recorder& recorder) {
    return recorder.ListAuditEvents(filter, page_size, page_token);
  });
}

absl::Status HistoryQueries::Export(const MeasurementFilter& filter, const LineSink& sink) const {
  return store_.read([&](const Recorder& recorder) { return recorder.Export(filter, sink); });
}

absl::StatusOr<JobReportPage> HistoryQueries::ListJobReports(MeasurementFilter filter,
                                                             int page_size,
                                                             std::string_view page_token,
                                                             const Knowledge& knowledge,
                                                             const StudyCodec& codec) const {
  filter.sources = {MeasurementSource::kJobReport};
  return ReadFrom(store_, [&](const Recorder& recorder) -> absl::StatusOr<JobReportPage> {
    JobReportPage reports;
    ASSIGN_OR_RETURN(reports.page, recorder.ListMeasurements(filter, MeasurementOrder::kNewest,
                                                             page_size, page_token));
    std::set<std::pair<std::string, std::string>> chips;
    for (const MeasurementRecord& record : reports.page.measurements) {
      chips.emplace(record.question.chip, record.question.framework);
    }
    MeasuredRows rows(recorder, knowledge, codec);
    for (const auto& [chip, framework] : chips) {
      ASSIGN_OR_RETURN(std::optional<std::string> warning,
                       DriftWarning(rows, chip, framework, filter.up_to_sequence));
      if (warning.has_value()) reports.warnings.push_back(*std::move(warning));
    }
    return reports;
  });
}

absl::StatusOr<BackupFile> HistoryQueries::Backup(std::string_view label, const std::string& folder,
                                                  const std::stop_token& stop) const {
  return ReadFrom(store_, [&](const Recorder& recorder) -> absl::StatusOr<BackupFile> {
    const std::filesystem::path store = recorder.path();
    if (store.empty()) {
      return absl::FailedPreconditionError(
          "a store in memory has no file, so it cannot be backed up");
    }
    BackupFile backup = {
        .name = fmt::format("{}-{}{}", store.stem().string(), label, store.extension().string())};
    const std::filesystem::path copy =
        (folder.empty() ? store.parent_path() : std::filesystem::path(folder)) / backup.name;
    RETURN_IF_ERROR(recorder.Backup(copy.string(), stop));
    std::error_code ignored;  // the copy is complete anyway
    backup.size_bytes = static_cast<std::int64_t>(std::filesystem::file_size(copy, ignored));
    return backup;
  });
}

}  // namespace meshwright
