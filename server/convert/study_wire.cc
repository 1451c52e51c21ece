#include "server/convert/study_wire.h"

#include <fmt/format.h>
#include <google/protobuf/map.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "recorder/recorder.h"
#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/convert/message_reader.h"
#include "server/convert/status_wire.h"
#include "server/convert/trial_wire.h"
#include "server/convert/wire_time.h"
#include "server/engine/engine_options.h"
#include "server/engine/journal_events.h"
#include "server/engine/study_id.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {
namespace {

constexpr std::size_t kMaxDisplayName = 120;
constexpr std::size_t kMaxNote = 10'000;
constexpr std::size_t kMaxLabel = 63;

bool IsKeyChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

bool IsValueChar(char c) { return IsKeyChar(c) || (c >= 'A' && c <= 'Z'); }

void CheckLabelKey(std::string_view key, std::string_view field, const MessageReader& in) {
  if (!key.empty() && key.size() <= kMaxLabel && std::ranges::all_of(key, IsKeyChar)) return;
  in.Add(field,
         fmt::format("{}; must be 1 to {} of a-z, 0-9, -, _ and .", QuotedText(key), kMaxLabel));
}

std::map<std::string, std::string> LabelsOf(
    const google::protobuf::Map<std::string, std::string>& wire, const MessageReader& in) {
  std::map<std::string, std::string> labels(wire.begin(), wire.end());
  for (const auto& [key, value] : labels) {
    CheckLabelKey(key, "labels", in);
    if (value.size() <= kMaxLabel && std::ranges::all_of(value, IsValueChar)) continue;
    in.Add(fmt::format("labels[{}]", QuotedText(key)),
           fmt::format("{}; must be at most {} of a-z, A-Z, 0-9, -, _ and .", QuotedText(value),
                       kMaxLabel));
  }
  return labels;
}

std::optional<std::string> TextUpTo(std::size_t most, std::string_view field,
                                    const MessageReader& in) {
  std::optional<std::string> text = in.Text(field);
  if (text.has_value() && text->size() > most) {
    in.Add(field, fmt::format("{} bytes; must be at most {}", text->size(), most));
  }
  return text;
}

absl::StatusOr<StudyFilter> ReadFilter(const v1::ListStudiesRequest& request) {
  if (!request.has_filter()) return StudyFilter();
  std::vector<FieldViolation> found;
  const MessageReader in(request.filter(), "filter", found);
  const auto time = [&in](std::string_view field) -> std::optional<std::int64_t> {
    const auto text = in.Text(field);
    if (!text.has_value()) return std::nullopt;
    const auto time_ms = ParseWireTime(*text);
    if (!time_ms.has_value()) {
      in.Add(field,
             fmt::format("{}; must be a date or a time, such as 2026-01-31 or 2026-01-31T23:59:59Z",
                         QuotedText(*text)));
    }
    return time_ms;
  };
  StudyFilter filter = {.state = in.Choice<StudyState>("state"),
                        .outcome = in.Text("outcome"),
                        .text = in.Text("text"),
                        .chip = in.Text("chip"),
                        .labels = LabelsOf(request.filter().labels(), in),
                        .create_time_from_ms = time("created_from"),
                        .create_time_before_ms = time("created_before")};
  if (!found.empty()) return InvalidFields(found);
  return filter;
}

absl::Status NameStudy(const absl::Status& status, const std::string& id) {
  return absl::IsNotFound(status) ? WithResource(status, "study", id) : status;
}

// Returns the response to a call that changes a study; an error names the study of the request.
template <typename Response, typename Request>
absl::StatusOr<Response> StudyResponse(const absl::StatusOr<StudyRecord>& study,
                                       const Request& request) {
  if (!study.ok()) return NameStudy(study.status(), request.study_id());
  Response response;
  *response.mutable_study() = ToWire(*study);
  return response;
}

absl::StatusOr<bool> IsBasicView(const v1::ListPlansRequest& request) {
  if (!request.has_view() || request.view() == "full") return false;
  if (request.view() == "basic") return true;
  return InvalidFields(
      {{.field = "view",
        .description = fmt::format("{}; must be one of basic, full", QuotedText(request.view()))}});
}

void LeaveOutLongParts(v1::Estimate& estimate) {
  estimate.clear_breakdown_seconds();
  estimate.clear_memory_breakdown_bytes();
  estimate.clear_peak_memory_bytes_by_stage();
  estimate.clear_applied_defaults();
  estimate.clear_warnings();
  estimate.clear_calibration();
}

}  // namespace

v1::Study AsStored(const StudyRecord& study) { return ToWire(study); }

absl::StatusOr<v1::ListStudiesResponse> ListStudies(const HistoryQueries& history,
                                                    const v1::ListStudiesRequest& request,
                                                    const ShowStudy& show) {
  ASSIGN_OR_RETURN(const StudyFilter filter, ReadFilter(request));
  ASSIGN_OR_RETURN(const StudyPage page,
                   history.ListStudies(request.page_size(), request.page_token(), filter));
  v1::ListStudiesResponse response;
  for (const StudyRecord& study : page.studies) *response.add_studies() = show(study);
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::GetStudyResponse> GetStudy(const HistoryQueries& history, const std::string& id,
                                              const ShowStudy& show) {
  ASSIGN_OR_RETURN(const StudyRecord study, history.GetStudy(id));
  v1::GetStudyResponse response;
  *response.mutable_study() = show(study);
  if (!response.mutable_question()->ParseFromString(study.question)) {
    return DamagedInStore("question of study", id);
  }
  if (study.result.has_value()) RETURN_IF_ERROR(FillAnswer(*study.result, response));
  return response;
}

absl::StatusOr<v1::ListPlansResponse> ListPlans(const HistoryQueries& history,
                                                const v1::ListPlansRequest& request) {
  ASSIGN_OR_RETURN(const bool is_basic, IsBasicView(request));
  ASSIGN_OR_RETURN(const PlanPage page, history.ListPlans(request.study_id(), request.page_size(),
                                                          request.page_token()));
  v1::ListPlansResponse response;
  for (const PlanRecord& record : page.plans) {
    v1::RankedPlan& plan = *response.add_plans();
    ASSIGN_OR_RETURN(plan, ToWire(record));
    if (is_basic) LeaveOutLongParts(*plan.mutable_estimate());
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

const v1::RankedPlan* AnsweredPlan(const v1::GetStudyResponse& study, int rank) {
  const v1::TuneResult& result = study.result();
  if (rank == 0 && result.has_baseline()) return &result.baseline();
  if (rank >= 1 && rank <= result.plans_size()) return &result.plans(rank - 1);
  return nullptr;
}

absl::Status UnknownPlan(const v1::GetStudyResponse& study, int rank) {
  const v1::TuneResult& result = study.result();
  const std::string has = result.plans().empty()
                              ? "it has no plans"
                              : fmt::format("it has plans {} to {}", result.has_baseline() ? 0 : 1,
                                            result.plans_size());
  return WithReason(absl::NotFoundError(fmt::format("plan {} of study '{}' does not exist; {}",
                                                    rank, study.study().id(), has)),
                    "UNKNOWN_PLAN");
}

absl::StatusOr<v1::GetPlanResponse> GetPlan(const HistoryQueries& history,
                                            const v1::GetPlanRequest& request) {
  ASSIGN_OR_RETURN(const v1::GetStudyResponse study, GetStudy(history, request.study_id()));
  ASSIGN_OR_RETURN(const std::optional<PlanRecord> record,
                   history.FindPlan(request.study_id(), request.rank()));
  const v1::RankedPlan* const answered = AnsweredPlan(study, request.rank());
  if (!record.has_value() && answered == nullptr) return UnknownPlan(study, request.rank());
  v1::GetPlanResponse response;
  v1::RankedPlan& plan = *response.mutable_plan();
  if (answered != nullptr) plan = *answered;
  if (record.has_value() && answered == nullptr) {
    ASSIGN_OR_RETURN(plan, ToWire(*record));
  }
  plan.set_rank(request.rank());
  if (record.has_value()) plan.set_state(record->state);
  return response;
}

absl::StatusOr<StudyEdit> FromWire(const v1::UpdateStudyRequest& request) {
  std::vector<FieldViolation> found;
  const MessageReader in(request, "", found);
  StudyEdit edit = {.study_id = request.study_id(),
                    .display_name = TextUpTo(kMaxDisplayName, "display_name", in),
                    .note = TextUpTo(kMaxNote, "note", in),
                    .labels = LabelsOf(request.labels(), in),
                    .removed_labels = in.Texts("removed_labels")};
  for (const std::string& key : edit.removed_labels) {
    CheckLabelKey(key, "removed_labels", in);
    if (edit.labels.contains(key)) {
      in.Add("removed_labels", fmt::format("{}; is set by labels too", QuotedText(key)));
    }
  }
  if (const auto etag = in.Text("etag"); etag.has_value()) {
    std::int64_t edit_count = 0;
    const char* const end = etag->data() + etag->size();
    const auto [read, error] = std::from_chars(etag->data(), end, edit_count);
    if (error == std::errc() && read == end) {
      edit.edit_count = edit_count;
    } else {
      in.Add("etag", fmt::format("{}; must be the etag of a study", QuotedText(*etag)));
    }
  }
  if (!found.empty()) return InvalidFields(found);
  return edit;
}

absl::StatusOr<v1::CreateStudyResponse> CreateStudy(const v1::CreateStudyRequest& request,
                                                    const Knowledge& knowledge, Engine& engine) {
  CreateStudyOptions options;
  std::vector<FieldViolation> violations;
  if (request.has_study_id()) {
    options.study_id = request.study_id();
    const std::string& launcher = request.question().trials().launcher();
    if (auto violation = CheckStudyId(request.study_id(), launcher)) {
      violations.push_back(*std::move(violation));
    }
  }
  if (request.has_request_id()) options.request_id = request.request_id();
  ASSIGN_OR_RETURN(const ResolvedStudy asked,
                   FromWire(request.question(), knowledge, std::move(violations)));
  ASSIGN_OR_RETURN(const StudyRecord study, engine.CreateStudy(asked, options));
  v1::CreateStudyResponse response;
  *response.mutable_study() = ToWire(study);
  return response;
}

absl::StatusOr<v1::CancelStudyResponse> CancelStudy(const v1::CancelStudyRequest& request,
                                                    Engine& engine) {
  return StudyResponse<v1::CancelStudyResponse>(engine.CancelStudy(request.study_id()), request);
}

absl::StatusOr<v1::PauseStudyResponse> PauseStudy(const v1::PauseStudyRequest& request,
                                                  Engine& engine) {
  return StudyResponse<v1::PauseStudyResponse>(engine.PauseStudy(request.study_id()), request);
}

absl::StatusOr<v1::ResumeStudyResponse> ResumeStudy(const v1::ResumeStudyRequest& request,
                                                    Engine& engine) {
  return StudyResponse<v1::ResumeStudyResponse>(engine.ResumeStudy(request.study_id()), request);
}

absl::StatusOr<v1::UpdateStudyResponse> UpdateStudy(const v1::UpdateStudyRequest& request,
                                                    const StoreAccess& store) {
  ASSIGN_OR_RETURN(const StudyEdit edit, FromWire(request));
  const auto study =
      WriteTo(store, [&edit](Recorder& recorder) { return recorder.EditStudy(edit); });
  return StudyResponse<v1::UpdateStudyResponse>(study, request);
}

v1::WatchStudyResponse ToWire(const EventRecord& event) {
  v1::WatchStudyResponse message;
  message.set_revision(event.revision);
  message.set_time(WireTime(event.time_ms));
  message.set_kind(event.kind);
  if (event.kind == kStateEventKind) message.set_state(event.payload);
  if (event.kind == kProgressEventKind) message.mutable_progress()->ParseFromString(event.payload);
  return message;
}

}  // namespace meshwright
