#include "server/convert/history_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "recorder/call_records.h"
#include "recorder/history_records.h"
#include "recorder/import.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "recorder/transfer.h"
#include "search_space/base/secrets.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "server/convert/convert.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/convert/status_wire.h"
#include "server/convert/wire_time.h"
#include "server/engine/engine_options.h"
#include "server/engine/wall_clock.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

constexpr std::size_t kPartBytes = 65'536;

void Fill(const ExpectedFigures& expected, v1::Measurement& wire) {
  if (!expected.step_time.has_value()) return;
  v1::Expectation& out = *wire.mutable_expected();
  out.set_step_time_seconds(expected.step_time->count());
  if (expected.low) out.set_step_time_low_seconds(expected.low->count());
  if (expected.high) out.set_step_time_high_seconds(expected.high->count());
  if (expected.peak_memory) out.set_peak_memory_bytes(expected.peak_memory->count);
  out.set_calibration_id(expected.calibration_id);
}

void Fill(const Retraction& retraction, v1::Retraction& wire) {
  wire.set_sequence(retraction.sequence);
  wire.set_create_time(WireTime(retraction.time_ms));
  wire.set_reason(retraction.reason);
}

// Adds how the run compares with what was expected of it.
void FillComparison(const MeasurementRecord& record, v1::Measurement& wire) {
  const ExpectedFigures& expected = record.expected;
  const bool ran = record.outcome == Outcome::kOk && record.step_time.has_value();
  if (!ran || !expected.step_time.has_value()) return;
  wire.set_step_time_ratio(*record.step_time / *expected.step_time);
  if (!expected.low.has_value() || !expected.high.has_value()) return;
  wire.set_is_within_interval(*expected.low <= *record.step_time &&
                              *record.step_time <= *expected.high);
}

MeasurementFilter ReadFilter(const MessageReader& in) {
  MeasurementFilter filter = {.chip = in.Text("chip"),
                              .framework = in.Text("framework"),
                              .model_name = in.Text("model_name"),
                              .job_fingerprint = in.Text("job_fingerprint"),
                              .study_id = in.Text("study_id"),
                              .outcome = in.Choice<Outcome>("outcome"),
                              .up_to_sequence = in.Int64("up_to_sequence"),
                              .is_retracted = in.Bool("is_retracted")};
  if (const auto source = in.Choice<MeasurementSource>("source")) filter.sources = {*source};
  return filter;
}

// Reads the field `filter` of a request. Returns INVALID_ARGUMENT with everything that is wrong
// with it.
absl::StatusOr<MeasurementFilter> FilterOf(const google::protobuf::Message& request) {
  std::vector<FieldViolation> found;
  const MessageReader in(request, "", found);
  MeasurementFilter filter;
  if (const auto stated = in.Child("filter")) filter = ReadFilter(*stated);
  RETURN_IF_ERROR(FoundStatus(found));
  return filter;
}

absl::StatusOr<MeasurementOrder> ReadOrder(const std::string& word) {
  if (word.empty() || word == "newest") return MeasurementOrder::kNewest;
  if (word == "fastest") return MeasurementOrder::kFastest;
  return InvalidFields(
      {{.field = "order",
        .description = fmt::format("\"{}\"; must be one of newest, fastest", word)}});
}

// Leaves out the fields that only the content has.
v1::StoredCalibration ToWire(const CalibrationRecord& record) {
  v1::StoredCalibration wire;
  wire.set_create_time(WireTime(record.create_time_ms));
  v1::Calibration& calibration = *wire.mutable_calibration();
  calibration.set_id(record.id);
  calibration.set_time_ratio(record.time_ratio.value_or(1));
  calibration.set_memory_ratio(record.memory_ratio.value_or(1));
  calibration.set_run_count(record.measurement_count);
  calibration.set_history_sequence(record.last_sequence);
  calibration.set_model_version(record.model_version);
  calibration.set_chip(record.chip);
  calibration.set_framework(record.framework);
  calibration.set_framework_version(record.framework_version);
  calibration.set_job_fingerprint(record.job_fingerprint);
  return wire;
}

// Formats the time for use in file names: "2026-11-22T07-15-30-123Z".
std::string FileTime(std::int64_t time_ms) {
  std::string time = WireTime(time_ms);
  std::ranges::replace_if(
      time, [](char c) { return c == ':' || c == '.'; }, '-');
  return time;
}

}  // namespace

v1::Measurement ToWire(const MeasurementRecord& record) {
  v1::Measurement wire;
  wire.set_id(record.id);
  wire.set_sequence(record.sequence);
  wire.set_source(std::string(Word(record.source)));
  wire.set_create_time(WireTime(record.time_ms));
  wire.set_study_id(record.study_id.value_or(""));
  const QuestionRecord& question = record.question;
  wire.set_model_name(question.model_name);
  wire.set_cluster_name(question.cluster_name);
  wire.set_chip(question.chip);
  wire.set_framework(question.framework);
  wire.set_framework_version(question.framework_version);
  wire.set_device_count(question.device_count);
  wire.set_plan_key(record.plan_key);
  wire.set_plan_digest(record.plan_digest);
  wire.set_outcome(std::string(Word(record.outcome)));
  if (record.step_time) wire.set_step_time_seconds(record.step_time->count());
  if (record.peak_memory) wire.set_peak_memory_bytes(record.peak_memory->count);
  Fill(record.expected, wire);
  FillComparison(record, wire);
  wire.set_device_seconds(record.device_time.count());
  wire.set_job_name(record.job_name);
  wire.set_note(record.note);
  MaskSecrets(*wire.mutable_job_name());
  MaskSecrets(*wire.mutable_note());
  wire.set_job_fingerprint(question.job_fingerprint);
  wire.set_hardware_fingerprint(question.hardware_fingerprint);
  wire.set_software_fingerprint(question.software_fingerprint);
  if (record.retraction.has_value()) Fill(*record.retraction, *wire.mutable_retraction());
  return wire;
}

absl::StatusOr<v1::ListJobReportsResponse> ListJobReports(const HistoryQueries& history,
                                                          const v1::ListJobReportsRequest& request,
                                                          const Knowledge& knowledge) {
  ASSIGN_OR_RETURN(const MeasurementFilter filter, FilterOf(request));
  if (request.filter().has_source() && request.filter().source() != "job_report") {
    return InvalidFields({{.field = "filter.source",
                           .description = fmt::format("\"{}\"; must be job_report or left out",
                                                      request.filter().source())}});
  }
  ASSIGN_OR_RETURN(const JobReportPage reports,
                   history.ListJobReports(filter, request.page_size(), request.page_token(),
                                          knowledge, ProtobufCodec(knowledge)));
  v1::ListJobReportsResponse response;
  response.set_next_page_token(reports.page.next_page_token);
  for (const MeasurementRecord& record : reports.page.measurements) {
    *response.add_reports() = ToWire(record);
  }
  response.mutable_warnings()->Assign(reports.warnings.begin(), reports.warnings.end());
  return response;
}

absl::StatusOr<v1::ListMeasurementsResponse> ListMeasurements(
    const HistoryQueries& history, const v1::ListMeasurementsRequest& request) {
  ASSIGN_OR_RETURN(const MeasurementFilter filter, FilterOf(request));
  ASSIGN_OR_RETURN(const MeasurementOrder order, ReadOrder(request.order()));
  ASSIGN_OR_RETURN(
      const MeasurementPage page,
      history.ListMeasurements(filter, order, request.page_size(), request.page_token()));
  v1::ListMeasurementsResponse response;
  for (const MeasurementRecord& record : page.measurements) {
    *response.add_measurements() = ToWire(record);
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::GetMeasurementResponse> GetMeasurement(const HistoryQueries& history,
                                                          const std::string& id,
                                                          const StudyCodec& codec) {
  const absl::StatusOr<MeasurementRecord> record = history.GetMeasurement(id);
  if (absl::IsNotFound(record.status())) return WithResource(record.status(), "measurement", id);
  RETURN_IF_ERROR(record.status());
  v1::GetMeasurementResponse response;
  v1::Measurement& wire = *response.mutable_measurement();
  wire = ToWire(*record);
  if (!wire.mutable_plan()->ParseFromString(record->plan)) return DamagedInStore("plan of", id);
  const absl::StatusOr<Question> question = codec.decode_question(record->question.question);
  if (!question.ok()) return DamagedInStore("question of", id);
  *wire.mutable_model() = ToWire(question->model);
  *wire.mutable_workload() = ToWire(question->workload);
  *wire.mutable_cluster() = ToWire(question->cluster);
  return response;
}

absl::StatusOr<v1::ListCalibrationsResponse> ListCalibrations(
    const HistoryQueries& history, const v1::ListCalibrationsRequest& request) {
  const std::optional<std::string> chip =
      request.has_chip() ? std::optional(request.chip()) : std::nullopt;
  ASSIGN_OR_RETURN(const CalibrationPage page,
                   history.ListCalibrations(chip, request.page_size(), request.page_token()));
  v1::ListCalibrationsResponse response;
  for (const CalibrationRecord& record : page.calibrations) {
    *response.add_calibrations() = ToWire(record);
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::GetCalibrationResponse> GetCalibration(const HistoryQueries& history,
                                                          const std::string& id) {
  const absl::StatusOr<CalibrationRecord> record = history.GetCalibration(id);
  if (absl::IsNotFound(record.status())) return WithResource(record.status(), "calibration", id);
  RETURN_IF_ERROR(record.status());
  v1::GetCalibrationResponse response;
  *response.mutable_calibration() = ToWire(*record);
  const bool is_read =
      response.mutable_calibration()->mutable_calibration()->ParseFromString(record->content);
  if (!is_read) return DamagedInStore("calibration", id);
  return response;
}

absl::Status ExportHistory(const HistoryQueries& history, const v1::ExportHistoryRequest& request,
                           const std::function<absl::Status(std::string part)>& sink) {
  ASSIGN_OR_RETURN(const MeasurementFilter filter, FilterOf(request));
  std::string part;
  RETURN_IF_ERROR(history.Export(filter, [&](std::string_view line) -> absl::Status {
    part.append(line).push_back('\n');
    if (part.size() < kPartBytes) return absl::OkStatus();
    return sink(std::exchange(part, {}));
  }));
  return part.empty() ? absl::OkStatus() : sink(std::move(part));
}

absl::StatusOr<ImportOptions> ReadImportOptions(const v1::ImportHistoryRequest& request) {
  constexpr std::int64_t kClocksDifferMs = 3'600'000;
  ImportOptions options = {.validate_only = request.validate_only(),
                           .latest_time_ms = NowMs() + kClocksDifferMs};
  const std::string policy = request.has_conflict_policy() ? request.conflict_policy() : "fail";
  if (policy != "fail" && policy != "keep") {
    return InvalidFields(
        {{.field = "conflict_policy",
          .description = fmt::format("\"{}\"; must be one of fail, keep", policy)}});
  }
  options.policy = policy == "keep" ? ConflictPolicy::kKeep : ConflictPolicy::kFail;
  return options;
}

absl::StatusOr<v1::ImportHistoryResponse> ImportHistory(const StoreAccess& store,
                                                        const LineSource& lines,
                                                        const ImportOptions& options) {
  ASSIGN_OR_RETURN(const ImportCounts counts, ImportMeasurements(lines, options, store));
  v1::ImportHistoryResponse response;
  response.set_imported_count(static_cast<int>(counts.imported));
  response.set_skipped_count(static_cast<int>(counts.skipped));
  response.set_kept_count(static_cast<int>(counts.kept));
  return response;
}

absl::StatusOr<v1::ListAuditEventsResponse> ListAuditEvents(
    const HistoryQueries& history, const v1::ListAuditEventsRequest& request) {
  std::vector<FieldViolation> found;
  const MessageReader in(request.filter(), "filter", found);
  const AuditFilter filter = {.caller = in.Text("caller"),
                              .method = in.Text("method"),
                              .study_id = in.Text("study_id"),
                              .time_from_ms = ReadTime(in, "created_from"),
                              .time_before_ms = ReadTime(in, "created_before")};
  if (!found.empty()) return InvalidFields(found);
  ASSIGN_OR_RETURN(const AuditPage page,
                   history.ListAuditEvents(filter, request.page_size(), request.page_token()));
  v1::ListAuditEventsResponse response;
  for (const AuditRecord& event : page.events) {
    v1::AuditEvent& wire = *response.add_events();
    wire.set_sequence(event.sequence);
    wire.set_create_time(WireTime(event.time_ms));
    wire.set_caller(event.caller);
    wire.set_role(event.role);
    wire.set_peer(event.peer);
    wire.set_protocol(event.protocol);
    wire.set_method(event.method);
    wire.set_study_id(event.study_id);
    wire.set_code(event.code);
    wire.set_reason(event.reason);
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::BackupStoreResponse> BackupStore(const HistoryQueries& history,
                                                    std::int64_t time_ms) {
  ASSIGN_OR_RETURN(const BackupFile backup, history.Backup(FileTime(time_ms)));
  v1::BackupStoreResponse response;
  response.set_file_name(backup.name);
  response.set_size_bytes(backup.size_bytes);
  return response;
}

}  // namespace meshwright
