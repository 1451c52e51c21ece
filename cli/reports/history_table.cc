#include "cli/reports/history_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cli/reports/table.h"
#include "cli/reports/text_width.h"
#include "cli/reports/words.h"
#include "cli/reports/wrap.h"
#include "search_space/base/count_text.h"
#include "search_space/spec/plan.h"
#include "server/convert/convert.h"

namespace meshwright {
namespace {

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string PlanText(const v1::Measurement& measurement) {
  const std::optional<ParallelPlan> plan = ParsePlanKey(measurement.plan_key());
  return plan.has_value() ? PlanWords(ToWire(*plan)) : measurement.plan_digest();
}

std::string MeasuredText(const v1::Measurement& measurement) {
  const double seconds = measurement.step_time_seconds();
  return seconds > 0 ? SecondsText(seconds) : "-";
}

std::string ExpectedText(const v1::Measurement& measurement) {
  if (!measurement.has_expected()) return "-";
  const v1::Expectation& expected = measurement.expected();
  return fmt::format("{} ({} .. {})", SecondsText(expected.step_time_seconds()),
                     SecondsText(expected.step_time_low_seconds()),
                     SecondsText(expected.step_time_high_seconds()));
}

// Returns "1.10x", with a star if the ratio has left its interval.
std::string RatioText(const v1::Measurement& measurement) {
  if (!measurement.has_step_time_ratio()) return "-";
  const bool is_outside = measurement.has_is_within_interval() && !measurement.is_within_interval();
  return fmt::format("{:.2f}x{}", measurement.step_time_ratio(), is_outside ? " *" : "");
}

// Returns the beginning of the reason for which a measurement was marked as wrong.
std::string RetractedText(const v1::Measurement& measurement) {
  constexpr std::size_t kColumns = 40;
  return measurement.has_retraction() ? Shortened(measurement.retraction().reason(), kColumns)
                                      : "-";
}

// Returns the measurements as rows. There is a column of reasons if one of them is retracted.
template <typename Measurements>
std::string TableOf(const Measurements& measurements, const std::string& next_page_token,
                    int columns) {
  const bool has_retracted = std::ranges::any_of(
      measurements, [](const v1::Measurement& row) { return row.has_retraction(); });
  std::vector<Column> titles = {{.title = "measurement"},
                                {.title = "time"},
                                {.title = "source"},
                                {.title = "model"},
                                {.title = "cluster"},
                                {.title = "outcome"},
                                {.title = "step time", .align = Align::kRight},
                                {.title = "expected (80 % interval)"},
                                {.title = "ratio"}};
  if (has_retracted) titles.push_back({.title = "retracted"});
  titles.push_back({.title = "plan"});
  Table table(std::move(titles));
  for (const v1::Measurement& row : measurements) {
    std::vector<std::string> cells = {row.id(),          row.create_time(),  row.source(),
                                      row.model_name(),  row.cluster_name(), row.outcome(),
                                      MeasuredText(row), ExpectedText(row),  RatioText(row)};
    if (has_retracted) cells.push_back(RetractedText(row));
    cells.push_back(PlanText(row));
    table.AddRow(std::move(cells));
  }
  std::string text = table.Text("", columns);
  if (!next_page_token.empty()) text += fmt::format("more: --page-token {}\n", next_page_token);
  return text;
}

template <typename Warnings>
std::string WarningLines(const Warnings& warnings, int columns) {
  std::string text;
  for (const std::string& warning : warnings) {
    text += Wrapped("warning: " + warning, columns, "", kIndent);
  }
  return text;
}

std::string PeakText(std::int64_t bytes) { return bytes > 0 ? GibText(bytes) + " GiB" : "-"; }

std::string RowsText(const v1::Calibration& calibration, int columns) {
  Table table({{.title = "measured"},
               {.title = "similarity", .align = Align::kRight},
               {.title = "time", .align = Align::kRight},
               {.title = "memory", .align = Align::kRight},
               {.title = "model"},
               {.title = "cluster"},
               {.title = "version"},
               {.title = "outcome"}});
  const auto ratio = [](bool is_there, double value) {
    return is_there ? fmt::format("{:.3f}x", value) : std::string("-");
  };
  for (const v1::PastRun& run : calibration.evidence()) {
    const bool is_stored = run.source_case() == v1::PastRun::kMeasurementId;
    table.AddRow({is_stored ? run.measurement_id() : fmt::format("row {}", run.history_index()),
                  fmt::format("{:.2f}", run.similarity_ratio()),
                  ratio(run.has_time_ratio(), run.time_ratio()),
                  ratio(run.has_memory_ratio(), run.memory_ratio()), OrDash(run.model_name()),
                  OrDash(run.cluster_name()), run.framework_version(), run.outcome()});
  }
  return table.Text(kIndent, columns);
}

}  // namespace

std::string ReportText(const v1::CreateJobReportResponse& kept, int columns) {
  const v1::Measurement& report = kept.report();
  std::string text = fmt::format("Report {} of {} on {} is stored.\n", report.id(),
                                 report.model_name(), report.cluster_name());
  if (kept.has_recommended_step_time_seconds()) {
    text += fmt::format("{} recommended its plan with {} a step.\n", report.study_id(),
                        SecondsText(kept.recommended_step_time_seconds()));
  }
  text += fmt::format("expected now   {}\n", ExpectedText(report));
  if (report.has_step_time_ratio()) {
    text += fmt::format("measured       {}, {:.2f} times the expected: {} the interval\n",
                        MeasuredText(report), report.step_time_ratio(),
                        report.is_within_interval() ? "inside" : "outside");
  } else {
    text += fmt::format("measured       {}\n", report.outcome());
  }
  return text + WarningLines(kept.warnings(), columns);
}

std::string ReportsText(const v1::BatchCreateJobReportsResponse& kept, int columns) {
  v1::ListJobReportsResponse reports;
  for (const v1::CreateJobReportResponse& response : kept.responses()) {
    *reports.add_reports() = response.report();
    reports.mutable_warnings()->MergeFrom(response.warnings());
  }
  return ReportTable(reports, columns);
}

std::string ReportTable(const v1::ListJobReportsResponse& reports, int columns) {
  if (reports.reports().empty()) return "no job reports\n";
  return TableOf(reports.reports(), reports.next_page_token(), columns) +
         WarningLines(reports.warnings(), columns);
}

std::string MeasurementTable(const v1::ListMeasurementsResponse& measurements, int columns) {
  if (measurements.measurements().empty()) return "no measurements\n";
  return TableOf(measurements.measurements(), measurements.next_page_token(), columns);
}

std::string MeasurementText(const v1::GetMeasurementResponse& response, int columns) {
  const v1::Measurement& row = response.measurement();
  Table table({{}, {}});
  table.AddRow({"measurement", fmt::format("{} (number {})", row.id(), row.sequence())});
  table.AddRow({"source", row.source()});
  table.AddRow({"time", row.create_time()});
  table.AddRow({"study", OrDash(row.study_id())});
  table.AddRow({"job", OrDash(row.job_name())});
  table.AddRow({"note", OrDash(row.note())});
  table.AddRow({"model", row.model_name()});
  table.AddRow({"cluster", fmt::format("{} ({} devices, {})", row.cluster_name(),
                                       row.device_count(), row.chip())});
  table.AddRow({"framework", fmt::format("{} {}", row.framework(), row.framework_version())});
  table.AddRow({"plan", PlanText(row)});
  table.AddRow({"outcome", row.outcome()});
  table.AddRow({"step time", MeasuredText(row)});
  table.AddRow({"expected", ExpectedText(row)});
  table.AddRow({"ratio", RatioText(row)});
  table.AddRow({"peak memory", PeakText(row.peak_memory_bytes())});
  table.AddRow({"expected", PeakText(row.expected().peak_memory_bytes())});
  table.AddRow({"calibration", OrDash(row.expected().calibration_id())});
  if (row.has_retraction()) {
    const v1::Retraction& mark = row.retraction();
    table.AddRow({"retracted", fmt::format("{} (number {}): {}", mark.create_time(),
                                           mark.sequence(), mark.reason())});
  }
  return table.Text("", columns);
}

std::string RetractionText(const v1::RetractMeasurementResponse& retracted, int columns) {
  const v1::Measurement& row = retracted.measurement();
  return Wrapped(fmt::format("Measurement {} of {} on {} is retracted as number {}: later answers "
                             "learn nothing from it. The reason is: {}",
                             row.id(), row.model_name(), row.cluster_name(),
                             row.retraction().sequence(), row.retraction().reason()),
                 columns);
}

std::string CalibrationTable(const v1::ListCalibrationsResponse& calibrations, int columns) {
  if (calibrations.calibrations().empty()) return "no calibrations\n";
  Table table({{.title = "calibration"},
               {.title = "time"},
               {.title = "chip"},
               {.title = "framework"},
               {.title = "runs", .align = Align::kRight},
               {.title = "up to", .align = Align::kRight},
               {.title = "step time", .align = Align::kRight},
               {.title = "memory", .align = Align::kRight}});
  for (const v1::StoredCalibration& stored : calibrations.calibrations()) {
    const v1::Calibration& row = stored.calibration();
    table.AddRow({row.id(), stored.create_time(), row.chip(),
                  fmt::format("{} {}", row.framework(), row.framework_version()),
                  CountText(row.run_count()), CountText(row.history_sequence()),
                  fmt::format("{:.3f}x", row.time_ratio()),
                  fmt::format("{:.3f}x", row.memory_ratio())});
  }
  std::string text = table.Text("", columns);
  if (!calibrations.next_page_token().empty()) {
    text += fmt::format("more: --page-token {}\n", calibrations.next_page_token());
  }
  return text;
}

std::string AuditTable(const v1::ListAuditEventsResponse& audit, int columns) {
  if (audit.events().empty()) return "no audit events\n";
  Table table({{.title = "time"},
               {.title = "caller"},
               {.title = "role"},
               {.title = "method"},
               {.title = "study"},
               {.title = "result"},
               {.title = "from"}});
  const auto shown = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  for (const v1::AuditEvent& event : audit.events()) {
    table.AddRow(
        {event.create_time(), shown(event.caller()), shown(event.role()), event.method(),
         shown(event.study_id()),
         event.reason().empty() ? event.code() : fmt::format("{} {}", event.code(), event.reason()),
         fmt::format("{} {}", event.protocol(), event.peer())});
  }
  std::string text = table.Text("", columns);
  if (!audit.next_page_token().empty()) {
    text += fmt::format("more: --page-token {}\n", audit.next_page_token());
  }
  return text;
}

std::string CalibrationText(const v1::GetCalibrationResponse& response, int columns) {
  const v1::StoredCalibration& stored = response.calibration();
  const v1::Calibration& row = stored.calibration();
  const std::string learnt = fmt::format(
      "{} under {} {}: measured step times are {:.3f} times the modelled ones, peak memory {:.3f} "
      "times; learnt from {} runs up to number {}, cost model {}",
      row.chip(), row.framework(), row.framework_version(), row.time_ratio(), row.memory_ratio(),
      row.run_count(), row.history_sequence(), row.model_version());
  return fmt::format("{} of {}\n", row.id(), stored.create_time()) + Wrapped(learnt, columns) +
         RowsText(row, columns);
}

std::string ImportText(const v1::ImportHistoryResponse& imported) {
  return fmt::format(
      "{} measurements imported, {} already stored, {} stored with other content and kept\n",
      imported.imported_count(), imported.skipped_count(), imported.kept_count());
}

std::string BackupText(const v1::BackupStoreResponse& backup) {
  return fmt::format("{} ({} bytes), in the folder of the store\n", backup.file_name(),
                     CountText(backup.size_bytes()));
}

}  // namespace meshwright
