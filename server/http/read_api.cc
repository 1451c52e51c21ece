#include "server/http/read_api.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "meshwright/v1/catalog.pb.h"
#include "meshwright/v1/history.pb.h"
#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "server/convert/attempt_wire.h"
#include "server/convert/catalog_wire.h"
#include "server/convert/convert.h"
#include "server/convert/history_wire.h"
#include "server/convert/job_report_wire.h"
#include "server/convert/study_wire.h"
#include "server/convert/trial_wire.h"
#include "server/http/addresses.h"
#include "server/http/http_call.h"
#include "server/http/http_status.h"
#include "server/http/openapi_files.h"
#include "server/http/query_fields.h"
#include "server/http/request_checks.h"
#include "server/http/url.h"
#include "server/http/watch_events.h"
#include "server/rpc/calls/answer.h"
#include "server/rpc/calls/call_end.h"

namespace meshwright {
namespace {

// Reads the request from the fields that the address names, and answers it.
using Answerer = absl::StatusOr<std::string> (*)(const ReadFace&, const HttpRequest&,
                                                 const NamedValues&);

template <typename Request, auto answer>
absl::StatusOr<std::string> Read(const ReadFace& face, const HttpRequest& http,
                                 const NamedValues& fields) {
  Request request;
  const std::vector<FieldViolation> violations = FillFromQuery(fields, request);
  if (!violations.empty()) return InvalidFields(violations);
  typename decltype(answer(face, request))::value_type response;
  const ArrivedCall arrived = Arrive(face.reception, http, request, &response);
  // Some reads need more than a reader's role.
  const absl::Status admitted = AdmitChange(face.reception.callers, http, arrived.method, request);
  if (!admitted.ok()) {
    EndCall(face.reception, arrived, admitted);
    return admitted;
  }
  RETURN_IF_ERROR(RunCall(face.reception, arrived, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(response, answer(face, request));
    return absl::OkStatus();
  }));
  return PrintJson(response, {}) + "\n";
}

absl::StatusOr<v1::GetServerInfoResponse> ServerInfoOf(const ReadFace& face,
                                                       const v1::GetServerInfoRequest&) {
  v1::GetServerInfoResponse info = face.server_info();
  info.set_allows_http_writes(face.writes.has_value());
  return info;
}
absl::StatusOr<v1::ListCostModelsResponse> CostModels(const ReadFace& face,
                                                      const v1::ListCostModelsRequest&) {
  return face.list_cost_models ? face.list_cost_models() : v1::ListCostModelsResponse();
}
absl::StatusOr<v1::ListCallersResponse> Callers(const ReadFace& face,
                                                const v1::ListCallersRequest&) {
  return face.list_callers ? face.list_callers() : v1::ListCallersResponse();
}
absl::StatusOr<v1::ListChipsResponse> Chips(const ReadFace& face, const v1::ListChipsRequest&) {
  return ListChips(face.knowledge.chips);
}
absl::StatusOr<v1::GetChipResponse> Chip(const ReadFace& face, const v1::GetChipRequest& request) {
  return GetChip(face.knowledge.chips, request.chip_id());
}
absl::StatusOr<v1::ListStudiesResponse> Studies(const ReadFace& face,
                                                const v1::ListStudiesRequest& request) {
  return ListStudies(face.history, request, face.show);
}
absl::StatusOr<v1::GetStudyResponse> Study(const ReadFace& face,
                                           const v1::GetStudyRequest& request) {
  return GetStudy(face.history, request.study_id(), face.show);
}
absl::StatusOr<v1::ListPlansResponse> Plans(const ReadFace& face,
                                            const v1::ListPlansRequest& request) {
  return ListPlans(face.history, request);
}
absl::StatusOr<v1::GetPlanResponse> Plan(const ReadFace& face, const v1::GetPlanRequest& request) {
  return GetPlan(face.history, request);
}
absl::StatusOr<v1::GetTrialResponse> Trial(const ReadFace& face,
                                           const v1::GetTrialRequest& request) {
  return GetTrial(face.history, request);
}
absl::StatusOr<v1::GetTrialLogsResponse> TrialLogs(const ReadFace& face,
                                                   const v1::GetTrialLogsRequest& request) {
  return GetTrialLogs(face.history, request);
}
absl::StatusOr<v1::ListParetoTrialsResponse> ParetoTrials(
    const ReadFace& face, const v1::ListParetoTrialsRequest& request) {
  return ListParetoTrials(face.history, request);
}
absl::StatusOr<v1::ListTrialsResponse> Trials(const ReadFace& face,
                                              const v1::ListTrialsRequest& request) {
  return ListTrials(face.history, request);
}
absl::StatusOr<v1::ListAttemptsResponse> Attempts(const ReadFace& face,
                                                  const v1::ListAttemptsRequest& request) {
  return ListAttempts(face.history, request);
}
absl::StatusOr<v1::ListJobReportsResponse> JobReports(const ReadFace& face,
                                                      const v1::ListJobReportsRequest& request) {
  return ListJobReports(face.history, request, face.knowledge);
}
absl::StatusOr<v1::ListMeasurementsResponse> Measurements(
    const ReadFace& face, const v1::ListMeasurementsRequest& request) {
  return ListMeasurements(face.history, request);
}
absl::StatusOr<v1::GetMeasurementResponse> Measurement(const ReadFace& face,
                                                       const v1::GetMeasurementRequest& request) {
  return GetMeasurement(face.history, request.measurement_id(), ProtobufCodec(face.knowledge));
}
absl::StatusOr<v1::ListCalibrationsResponse> Calibrations(
    const ReadFace& face, const v1::ListCalibrationsRequest& request) {
  return ListCalibrations(face.history, request);
}
absl::StatusOr<v1::GetCalibrationResponse> CalibrationOf(const ReadFace& face,
                                                         const v1::GetCalibrationRequest& request) {
  return GetCalibration(face.history, request.calibration_id());
}

absl::StatusOr<v1::ListAuditEventsResponse> AuditEvents(const ReadFace& face,
                                                        const v1::ListAuditEventsRequest& request) {
  return ListAuditEvents(face.history, request);
}

struct Route {
  std::string_view address;  // parts in braces are fields of the request
  Answerer answer;
};

constexpr Route kRoutes[] = {
    {"/v1/server", Read<v1::GetServerInfoRequest, ServerInfoOf>},
    {"/v1/costModels", Read<v1::ListCostModelsRequest, CostModels>},
    {"/v1/callers", Read<v1::ListCallersRequest, Callers>},
    {"/v1/chips", Read<v1::ListChipsRequest, Chips>},
    {"/v1/chips/{chip_id}", Read<v1::GetChipRequest, Chip>},
    {"/v1/studies", Read<v1::ListStudiesRequest, Studies>},
    {"/v1/studies/{study_id}", Read<v1::GetStudyRequest, Study>},
    {"/v1/studies/{study_id}/plans", Read<v1::ListPlansRequest, Plans>},
    {"/v1/studies/{study_id}/plans/{rank}", Read<v1::GetPlanRequest, Plan>},
    {"/v1/studies/{study_id}/trials", Read<v1::ListTrialsRequest, Trials>},
    {"/v1/studies/{study_id}/trials/{trial_number}", Read<v1::GetTrialRequest, Trial>},
    {"/v1/studies/{study_id}/trials/{trial_number}/logs", Read<v1::GetTrialLogsRequest, TrialLogs>},
    {"/v1/studies/{study_id}/paretoTrials", Read<v1::ListParetoTrialsRequest, ParetoTrials>},
    {"/v1/studies/{study_id}/attempts", Read<v1::ListAttemptsRequest, Attempts>},
    {"/v1/auditEvents", Read<v1::ListAuditEventsRequest, AuditEvents>},
    {"/v1/jobReports", Read<v1::ListJobReportsRequest, JobReports>},
    {"/v1/measurements", Read<v1::ListMeasurementsRequest, Measurements>},
    {"/v1/measurements/{measurement_id}", Read<v1::GetMeasurementRequest, Measurement>},
    {"/v1/calibrations", Read<v1::ListCalibrationsRequest, Calibrations>},
    {"/v1/calibrations/{calibration_id}", Read<v1::GetCalibrationRequest, CalibrationOf>},
};
// Answers with the description of this API, which scripts/openapi.py has made.
constexpr std::string_view kOpenApiAddress = "/v1/openapi.json";
// Answers with events (watch_events.h).
constexpr std::string_view kWatchAddress = "/v1/studies/{study_id}:watch";

HttpAnswer ToAnswer(const absl::StatusOr<std::string>& body) {
  if (!body.ok()) return {.response = ErrorResponse(body.status())};
  return {.response = {.content_type = "application/json", .body = *body}};
}

// The revision that a browser has seen stands in its Last-Event-ID, or at first in the query.
HttpAnswer Watch(const ReadFace& face, const NamedValues& fields,
                 const std::string& last_event_id) {
  v1::WatchStudyRequest asked;
  std::vector<FieldViolation> violations = FillFromQuery(fields, asked);
  if (!last_event_id.empty()) {
    std::int64_t seen = 0;
    const char* const end = last_event_id.data() + last_event_id.size();
    const auto read = std::from_chars(last_event_id.data(), end, seen);
    if (read.ec != std::errc() || read.ptr != end) {
      violations.push_back({.field = "Last-Event-ID",
                            .description = fmt::format("'{}'; must be a revision", last_event_id)});
    }
    asked.set_after_revision(seen);
  }
  if (violations.empty() && asked.after_revision() < 0) {
    violations.push_back({.field = "after_revision", .description = "negative; must be >= 0"});
  }
  if (!violations.empty()) return {.response = ErrorResponse(InvalidFields(violations))};
  auto opened = WatchEvents(face, asked);
  if (!opened.ok()) return {.response = ErrorResponse(opened.status())};
  return {.response = {.content_type = "text/event-stream"}, .open_events = *std::move(opened)};
}

}  // namespace

HttpAnswer AnswerRead(const ReadFace& face, const HttpRequest& request) {
  const auto path = DecodePath(request.path);
  auto query = DecodeQuery(request.query);
  if (!path.has_value() || !query.has_value()) return {.response = ErrorResponse(BadEncoding())};
  const auto with_query = [&query](NamedValues fields) {
    fields.insert(fields.end(), query->begin(), query->end());
    return fields;
  };
  if (request.path == kOpenApiAddress) {
    return ToAnswer(std::string(openapi_files().front().text));
  }
  if (auto fields = MatchAddress(kWatchAddress, *path)) {
    return Watch(face, with_query(*std::move(fields)), request.last_event_id);
  }
  for (const Route& route : kRoutes) {
    if (auto fields = MatchAddress(route.address, *path)) {
      return ToAnswer(route.answer(face, request, with_query(*std::move(fields))));
    }
  }
  return {.response = ErrorResponse(UnknownAddress(request.path))};
}

std::vector<std::string> ReadAddresses() {
  std::vector<std::string> addresses;
  for (const Route& route : kRoutes) addresses.emplace_back(route.address);
  addresses.emplace_back(kWatchAddress);
  addresses.emplace_back(kOpenApiAddress);
  return addresses;
}

}  // namespace meshwright
