#include "server/convert/study_wire.h"

#include <fmt/format.h>
#include <google/protobuf/map.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "proto/json/text_fields.h"
#include "recorder/recorder.h"
#include "search_space/base/clean_text.h"
#include "search_space/base/secrets.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/convert/message_reader.h"
#include "server/convert/status_wire.h"
#include "server/convert/trial_wire.h"
#include "server/convert/wire_time.h"
#include "server/engine/journal_events.h"
#include "server/engine/wall_clock.h"

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
  StudyFilter filter = {.state = in.Choice<StudyState>("state"),
                        .outcome = in.Text("outcome"),
                        .text = in.Text("text"),
                        .chip = in.Text("chip"),
                        .creator = in.Text("creator"),
                        .labels = LabelsOf(request.filter().labels(), in),
                        .create_time_from_ms = ReadTime(in, "created_from"),
                        .create_time_before_ms = ReadTime(in, "created_before")};
  if (!found.empty()) return InvalidFields(found);
  return filter;
}

// Returns the number of edits that an etag stands for; nullopt if there is no etag.
std::optional<std::int64_t> EditCountOf(const MessageReader& in) {
  const auto etag = in.Text("etag");
  if (!etag.has_value()) return std::nullopt;
  std::int64_t edit_count = 0;
  const char* const end = etag->data() + etag->size();
  const auto [read, error] = std::from_chars(etag->data(), end, edit_count);
  if (error == std::errc() && read == end) return edit_count;
  in.Add("etag", fmt::format("{}; must be the etag of a study", QuotedText(*etag)));
  return std::nullopt;
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

absl::Status NameStudy(const absl::Status& status, const std::string& id) {
  const bool is_study = absl::IsNotFound(status) && Reason(status) == "UNKNOWN_STUDY";
  return is_study ? WithResource(status, "study", id) : status;
}

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
  if (response.question().trials().has_job()) {
    MaskSecretTexts(*response.mutable_question()->mutable_trials()->mutable_job());
  }
  if (study.result.has_value()) RETURN_IF_ERROR(FillAnswer(*study.result, response));
  if (response.has_result()) {
    for (v1::Trial& trial : *response.mutable_result()->mutable_trials()) {
      MaskSecrets(*trial.mutable_failure_message());
    }
  }
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
  edit.edit_count = EditCountOf(in);
  if (!found.empty()) return InvalidFields(found);
  return edit;
}

absl::StatusOr<StudyDeletion> FromWire(const v1::DeleteStudyRequest& request) {
  std::vector<FieldViolation> found;
  const MessageReader in(request, "", found);
  const StudyDeletion deletion = {.study_id = request.study_id(),
                                  .edit_count = EditCountOf(in),
                                  .retracts_measurements = request.retract_measurements(),
                                  .time_ms = NowMs()};
  if (!found.empty()) return InvalidFields(found);
  return deletion;
}

absl::StatusOr<StudyReopening> FromWire(const v1::RetryTrialsRequest& request) {
  std::vector<FieldViolation> found;
  const MessageReader in(request, "", found);
  StudyReopening reopening = {
      .study_id = request.study_id(), .edit_count = EditCountOf(in), .time_ms = NowMs()};
  std::set<int> seen;
  for (int i = 0; i < request.trial_numbers_size(); ++i) {
    const int number = request.trial_numbers(i);
    const std::string field = fmt::format("trial_numbers[{}]", i);
    if (number < 1) {
      in.Add(field, fmt::format("{}; must be >= 1", number));
    } else if (!seen.insert(number).second) {
      in.Add(field, fmt::format("{}; stated twice", number));
    }
    reopening.trial_numbers.push_back(number);
  }
  std::set<std::string_view> classes;
  for (int i = 0; i < request.failure_classes_size(); ++i) {
    const std::string& name = request.failure_classes(i);
    const std::string field = fmt::format("failure_classes[{}]", i);
    if (request.trial_numbers_size() > 0) {
      in.Add(field, "not together with trial_numbers");
    } else if (name.empty()) {
      in.Add(field, "''; must be the class of a failure");
    } else if (!classes.insert(name).second) {
      in.Add(field, fmt::format("'{}'; stated twice", name));
    }
    reopening.failure_classes.push_back(name);
  }
  if (!found.empty()) return InvalidFields(found);
  return reopening;
}

v1::DeleteStudyResponse ToWire(const DeletedStudy& deleted, const std::string& study_id) {
  v1::DeleteStudyResponse response;
  response.set_study_id(study_id);
  response.set_trial_count(deleted.trial_count);
  response.set_retracted_measurement_count(deleted.retracted_count);
  return response;
}

v1::RetryTrialsResponse ToWire(const ReopenedStudy& reopened) {
  v1::RetryTrialsResponse response;
  *response.mutable_study() = ToWire(reopened.study);
  response.mutable_trial_numbers()->Assign(reopened.trial_numbers.begin(),
                                           reopened.trial_numbers.end());
  return response;
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
