#include "server/convert/job_report_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "recorder/records.h"
#include "search_space/digest/fnv.h"
#include "search_space/spec/choices.h"
#include "server/convert/convert.h"
#include "server/convert/history_wire.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/convert/status_wire.h"
#include "server/convert/workload_settings_wire.h"
#include "server/engine/history_queries.h"
#include "server/engine/job_report.h"
#include "server/tuner/question/fingerprint.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

constexpr std::size_t kLongestName = 200;
constexpr std::size_t kLongestNote = 4000;
// The fields of a question that a report takes from its study.
constexpr std::string_view kQuestionFields[] = {"model", "workload", "cluster"};

using NamedStudy = absl::StatusOr<v1::GetStudyResponse>;  // includes its answer
using NamedStudies = std::map<std::string, NamedStudy>;

// A report after reading, with what its study promised.
struct ReadReport {
  JobReport report = {};
  std::optional<double> recommended_seconds = {};
};

NamedStudy FindStudy(const HistoryQueries& history, const std::string& id) {
  const absl::StatusOr<StudyRecord> record = history.GetStudy(id);
  if (!record.ok()) {
    return absl::IsNotFound(record.status()) ? WithResource(record.status(), "study", id)
                                             : record.status();
  }
  v1::GetStudyResponse study;
  if (!study.mutable_question()->ParseFromString(record->question)) {
    return DamagedInStore("question of study", id);
  }
  if (record->result.has_value()) RETURN_IF_ERROR(FillAnswer(*record->result, study));
  if (study.result().plans().empty()) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format("study '{}' has no plan to report on; it is {}",
                                                  id, std::string(Word(record->state)))),
        "STUDY_WITHOUT_PLANS");
  }
  return study;
}

NamedStudies FindStudies(std::span<const v1::CreateJobReportRequest* const> asked,
                         const HistoryQueries& history) {
  NamedStudies studies;
  for (const auto* request : asked) {
    if (!request->has_study_id() || studies.contains(request->study_id())) continue;
    studies.emplace(request->study_id(), FindStudy(history, request->study_id()));
  }
  return studies;
}

void CheckLength(const MessageReader& in, std::string_view field, std::size_t longest) {
  const std::optional<std::string> text = in.Text(field);
  if (!text.has_value() || text->size() <= longest) return;
  in.Add(field, fmt::format("{} bytes; must be at most {}", text->size(), longest));
}

// Checks the fields that name the plan that was run: either a plan of a study, or the report's own
// question and plan.
void CheckForm(const MessageReader& in, const v1::CreateJobReportRequest& request) {
  if (request.has_study_id()) {
    for (const std::string_view field : kQuestionFields) {
      if (in.Child(field).has_value()) {
        in.Add(field, "stated beside study_id; must be one of the two");
      }
    }
    if (request.has_rank() && request.has_plan()) {
      in.Add("rank", fmt::format("{} beside plan; must be one of the two", request.rank()));
    }
  } else if (request.has_rank()) {
    in.Add("rank",
           fmt::format("{} without study_id; a rank names a plan of a study", request.rank()));
  }
  if (request.has_request_id() && request.request_id().empty()) {
    in.Add("request_id", "empty; must be absent or an id of the request");
  }
  CheckLength(in, "request_id", kLongestName);
  CheckLength(in, "job_name", kLongestName);
  CheckLength(in, "note", kLongestNote);
}

// Returns the study's plan of that rank. If there is none, adds a mistake and returns null.
const v1::RankedPlan* PlanOfRank(const v1::TuneResult& result, int rank, const MessageReader& in) {
  if (rank == 0 && result.has_baseline()) return &result.baseline();
  if (rank >= 1 && rank <= result.plans_size()) return &result.plans(rank - 1);
  in.Add("rank", fmt::format("{}; must be between {} and {}, the plans of the study", rank,
                             result.has_baseline() ? 0 : 1, result.plans_size()));
  return nullptr;
}

// Returns the request completed with its study's question and plan, and with what the study said of
// the plan. Returns nullopt if the request names no plan of the study.
std::optional<v1::CreateJobReportRequest> Completed(const v1::CreateJobReportRequest& request,
                                                    const v1::GetStudyResponse& study,
                                                    const MessageReader& in,
                                                    std::optional<double>& recommended_seconds) {
  v1::CreateJobReportRequest whole = request;
  *whole.mutable_model() = study.question().model();
  *whole.mutable_workload() = study.question().workload();
  *whole.mutable_cluster() = study.question().cluster();
  if (request.has_plan()) return whole;
  const int rank = request.has_rank() ? request.rank() : 1;
  const v1::RankedPlan* const plan = PlanOfRank(study.result(), rank, in);
  if (plan == nullptr) return std::nullopt;
  *whole.mutable_plan() = plan->plan();
  // Settings that the question leaves open were chosen together with the plan.
  if (const absl::Status set = SetSettings(*plan, *whole.mutable_workload()); !set.ok()) {
    in.Add("rank", fmt::format("{}; {}", rank, std::string(set.message())));
    return std::nullopt;
  }
  recommended_seconds = plan->estimate().step_time_seconds();
  return whole;
}

// Drops the mistakes of the question and the plan, because these were not available to be read.
void KeepMeasuredMistakes(const MessageReader& in, std::vector<FieldViolation>& found) {
  std::erase_if(found, [&](const FieldViolation& violation) {
    const auto is_at = [&](std::string_view field) {
      return violation.field.starts_with(in.At(field));
    };
    return is_at("plan") || std::ranges::any_of(kQuestionFields, is_at);
  });
}

// Reads one report. `study` is null if the report names none, or one that could not be read.
ReadReport ReadOne(const v1::CreateJobReportRequest& request, const v1::GetStudyResponse* study,
                   const std::string& path, QuestionResolver& resolver,
                   std::vector<FieldViolation>& found) {
  const MessageReader in(request, path, found);
  CheckForm(in, request);
  ReadReport out;
  JobReport& report = out.report;
  std::optional<v1::CreateJobReportRequest> whole = request;
  if (request.has_study_id()) {
    whole.reset();
    if (study != nullptr) whole = Completed(request, *study, in, out.recommended_seconds);
  }
  if (!whole.has_value()) {
    std::vector<FieldViolation> measured;
    ReadHistoryRow(MessageReader(request, path, measured), resolver);
    KeepMeasuredMistakes(in, measured);
    found.insert(found.end(), measured.begin(), measured.end());
    return out;
  }
  if (request.has_framework_version()) {
    v1::Framework& framework = *whole->mutable_workload()->mutable_framework();
    if (!framework.has_name()) {
      in.Add("framework_version",
             fmt::format("'{}'; needs workload.framework.name, which says whose version it is",
                         request.framework_version()));
    }
    framework.set_version(request.framework_version());
  }
  report.run = ReadHistoryRow(MessageReader(*whole, path, found), resolver);
  if (request.has_study_id()) report.study_id = request.study_id();
  if (request.has_request_id()) report.request_id = request.request_id();
  v1::CreateJobReportRequest hashed = request;
  hashed.clear_request_id();
  hashed.clear_is_confirmed();  // it is an answer to a question, and no part of the report
  report.request_hash = Fnv1a128Hex(hashed.SerializeAsString());
  report.job_name = request.job_name();
  report.note = request.note();
  report.step_time_field = in.At("step_time_seconds");
  report.is_confirmed = request.is_confirmed();
  return out;
}

// Reads all reports, or returns every mistake in them at once.
absl::StatusOr<std::vector<ReadReport>> ReadAll(
    std::span<const v1::CreateJobReportRequest* const> asked, bool is_batch,
    const ReportContext& context) {
  const NamedStudies studies = FindStudies(asked, HistoryQueries(context.store));
  std::vector<FieldViolation> found;
  absl::Status lost;  // the error of the first study that could not be read
  std::vector<ReadReport> read;
  QuestionResolver resolver(context.knowledge);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto named = studies.find(asked[i]->study_id());
    const bool is_named = asked[i]->has_study_id();
    if (is_named && lost.ok()) lost = named->second.status();
    read.push_back(ReadOne(*asked[i], is_named && named->second.ok() ? &*named->second : nullptr,
                           is_batch ? fmt::format("requests[{}]", i) : "", resolver, found));
  }
  RETURN_IF_ERROR(FoundStatus(found));
  RETURN_IF_ERROR(lost);
  return read;
}

absl::StatusOr<std::vector<v1::CreateJobReportResponse>> Create(
    std::span<const v1::CreateJobReportRequest* const> asked, bool is_batch,
    const ReportContext& context) {
  ASSIGN_OR_RETURN(std::vector<ReadReport> read, ReadAll(asked, is_batch, context));
  std::vector<JobReport> reports;
  reports.reserve(read.size());
  for (ReadReport& one : read) reports.push_back(std::move(one.report));
  ASSIGN_OR_RETURN(
      const std::vector<KeptReport> kept,
      KeepJobReports(reports,
                     {.store = context.store,
                      .history = context.history,
                      .on_measurement = context.on_measurement},
                     context.knowledge, ProtobufCodec(context.knowledge), context.time_ms));
  std::vector<v1::CreateJobReportResponse> responses(kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    *responses[i].mutable_report() = ToWire(kept[i].measurement);
    if (read[i].recommended_seconds.has_value()) {
      responses[i].set_recommended_step_time_seconds(*read[i].recommended_seconds);
    }
    responses[i].mutable_warnings()->Assign(kept[i].warnings.begin(), kept[i].warnings.end());
  }
  return responses;
}

std::optional<FieldViolation> CheckCount(int count) {
  if (count >= 1 && count <= kMaxReports) return std::nullopt;
  return FieldViolation{
      .field = "requests",
      .description = fmt::format("{} reports; must be between 1 and {}", count, kMaxReports)};
}

}  // namespace

absl::StatusOr<v1::CreateJobReportResponse> CreateJobReport(
    const v1::CreateJobReportRequest& request, const ReportContext& context) {
  const v1::CreateJobReportRequest* const asked[] = {&request};
  ASSIGN_OR_RETURN(std::vector<v1::CreateJobReportResponse> responses,
                   Create(asked, /*is_batch=*/false, context));
  return std::move(responses.front());
}

absl::StatusOr<v1::BatchCreateJobReportsResponse> BatchCreateJobReports(
    const v1::BatchCreateJobReportsRequest& request, const ReportContext& context) {
  if (auto violation = CheckCount(request.requests_size())) return InvalidFields({*violation});
  const std::vector<const v1::CreateJobReportRequest*> asked(request.requests().pointer_begin(),
                                                             request.requests().pointer_end());
  ASSIGN_OR_RETURN(std::vector<v1::CreateJobReportResponse> responses,
                   Create(asked, /*is_batch=*/true, context));
  v1::BatchCreateJobReportsResponse batch;
  for (v1::CreateJobReportResponse& response : responses) {
    *batch.add_responses() = std::move(response);
  }
  return batch;
}

absl::Status ReportMistakes(const v1::CreateJobReportRequest& request, const Knowledge& knowledge,
                            std::vector<FieldViolation> found) {
  QuestionResolver resolver(knowledge);
  ReadOne(request, nullptr, "", resolver, found);
  return FoundStatus(found);
}

absl::Status ReportMistakes(const v1::BatchCreateJobReportsRequest& request,
                            const Knowledge& knowledge, std::vector<FieldViolation> found) {
  QuestionResolver resolver(knowledge);
  for (int i = 0; i < request.requests_size(); ++i) {
    ReadOne(request.requests(i), nullptr, fmt::format("requests[{}]", i), resolver, found);
  }
  if (auto violation = CheckCount(request.requests_size())) found.push_back(*violation);
  return FoundStatus(found);
}

}  // namespace meshwright
