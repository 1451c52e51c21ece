#include "server/convert/question_answers.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "recorder/records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/convert/case_answers.h"
#include "server/convert/convert.h"
#include "server/convert/status_wire.h"
#include "server/convert/study_wire.h"
#include "server/convert/workload_settings_wire.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/answers/sweep.h"
#include "server/tuner/answers/timeline.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/study_control.h"

namespace meshwright {
namespace {

constexpr std::array kSides = {"first", "second"};

template <typename Value>
Value At(const google::protobuf::Map<std::string, Value>& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? Value() : found->second;
}

template <typename Value>
void Subtract(const google::protobuf::Map<std::string, Value>& first,
              const google::protobuf::Map<std::string, Value>& second,
              google::protobuf::Map<std::string, Value>& difference) {
  for (const auto& [key, value] : second) difference[key] = value - At(first, key);
  for (const auto& [key, value] : first) {
    if (!second.contains(key)) difference[key] = -value;
  }
}

// Replaces the case's word for its plan by the request's.
absl::Status WithSide(const absl::Status& status, const std::string& side) {
  std::vector<FieldViolation> found = FieldViolations(status);
  if (found.empty()) return status;
  for (FieldViolation& violation : found) {
    if (violation.field.starts_with("plan")) violation.field = side + "_" + violation.field;
  }
  return WithReason(InvalidFields(found), Reason(status));
}

// Returns the mistakes of both cases in one status, or one of the errors that have no fields.
absl::Status Mistakes(const std::vector<CaseAnswer>& answers) {
  std::vector<FieldViolation> found;
  absl::Status first;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const absl::Status status = WithSide(answers[i].estimate.status(), std::string(kSides.at(i)));
    if (first.ok()) first = status;
    for (FieldViolation& violation : FieldViolations(status)) found.push_back(std::move(violation));
  }
  return found.empty() ? first : WithReason(InvalidFields(found), Reason(first));
}

// Evaluates both cases of a request and compares them. The cases get ids.
absl::StatusOr<v1::ComparePlansResponse> Compare(v1::EvaluatePlansRequest asked,
                                                 const HistorySource& history,
                                                 const QuestionContext& context) {
  for (std::size_t i = 0; i < kSides.size(); ++i) {
    asked.mutable_cases(static_cast<int>(i))->set_id(kSides.at(i));
  }
  v1::CasePair& pair = *asked.add_pairs();
  pair.set_a(kSides[0]);
  pair.set_b(kSides[1]);
  ASSIGN_OR_RETURN(
      const std::vector<CaseAnswer> answers,
      EvaluateCases(asked, context.knowledge, history, context.cancel, context.open_model));
  RETURN_IF_ERROR(Mistakes(answers));
  v1::ComparePlansResponse response;
  v1::PlanComparison& comparison = *response.mutable_comparison();
  comparison = CompareEstimates(ToWire(*answers[0].estimate), ToWire(*answers[1].estimate));
  for (const v1::ComparedPair& compared : ComparePairs(answers, asked.pairs())) {
    AddCertainty(compared, comparison);
  }
  comparison.set_first_plan_digest(MakePlanKey(answers[0].plan).digest);
  comparison.set_second_plan_digest(MakePlanKey(answers[1].plan).digest);
  *response.mutable_first_plan() = ToWire(answers[0].plan);
  *response.mutable_second_plan() = ToWire(answers[1].plan);
  return response;
}

v1::EvaluateCase CaseOf(const v1::TuneRequest& question, const v1::Plan& plan) {
  v1::EvaluateCase wire;
  *wire.mutable_model() = question.model();
  *wire.mutable_workload() = question.workload();
  *wire.mutable_cluster() = question.cluster();
  *wire.mutable_plan() = plan;
  return wire;
}

// Returns the request without its cases.
v1::EvaluatePlansRequest RequestOf(const v1::TuneRequest& question) {
  v1::EvaluatePlansRequest asked;
  *asked.mutable_history() = question.history();
  if (question.has_cost_model()) *asked.mutable_cost_model() = question.cost_model();
  return asked;
}

// Returns the time that a question has for its search, which ends at `end` at the latest.
absl::StatusOr<Seconds> LimitOf(const ResolvedStudy& asked,
                                std::chrono::system_clock::time_point end) {
  const Seconds left = end - std::chrono::system_clock::now();
  if (left <= Seconds(0)) {
    return absl::DeadlineExceededError("the deadline is too short for a search");
  }
  return std::min(left, asked.request.deadline.value_or(left));
}

// Searches for the answer until `end` at the latest. Returns true if nothing cut it short, so that
// another search would find the same.
absl::StatusOr<bool> Search(const QuestionContext& context, const HistorySource& history,
                            std::chrono::system_clock::time_point end, AnsweredQuestion& answered) {
  ASSIGN_OR_RETURN(const Seconds limit, LimitOf(answered.asked, end));
  const StudyControl control = {
      .cancel = context.cancel, .history = history, .open_model = context.open_model};
  ResolvedStudy limited = answered.asked;
  limited.request.deadline = limit;
  const auto start = std::chrono::steady_clock::now();
  answered.answer = RunStudy(limited, context.knowledge, control);
  // No part of an answer that came in time was cut, whatever it says of itself.
  const bool was_in_time = std::chrono::steady_clock::now() - start < limit;
  return answered.answer.ok() && was_in_time && !context.cancel.stop_requested();
}

absl::StatusOr<v1::TuneResult> ResultOf(const absl::StatusOr<StudyAnswer>& answer) {
  if (!answer.ok()) return answer.status();
  if (const auto* infeasible = std::get_if<Infeasible>(&*answer)) {
    return InfeasibleStatus(ToWire(*infeasible));
  }
  return ToWire(std::get<StudyResult>(*answer));
}

absl::StatusOr<v1::RecommendResponse> ResponseOf(absl::StatusOr<v1::TuneResult> result,
                                                 const std::string& study_id) {
  if (!result.ok()) {
    return study_id.empty() ? result.status() : WithStudyId(result.status(), study_id);
  }
  v1::RecommendResponse response;
  response.set_study_id(study_id);
  *response.mutable_result() = *std::move(result);
  response.set_source("model");
  return response;
}

// Returns the answer as it was given first. `names_study` is false for a caller who wants none.
absl::StatusOr<v1::RecommendResponse> ResponseOf(const KeptAnswer& kept, bool names_study) {
  v1::GetStudyResponse answer;
  RETURN_IF_ERROR(FillAnswer(kept.answer, answer));
  const std::string study_id = names_study ? kept.study_id : "";
  if (answer.has_infeasible()) return ResponseOf(InfeasibleStatus(answer.infeasible()), study_id);
  ASSIGN_OR_RETURN(v1::RecommendResponse response,
                   ResponseOf(std::move(*answer.mutable_result()), study_id));
  response.set_source("cache");
  return response;
}

// Returns the answer to a question that was stated in the same bytes before; null if there is none.
absl::StatusOr<std::shared_ptr<const KeptAnswer>> KnownAnswer(const QuestionContext& context,
                                                              const std::string& stated,
                                                              bool needs_study) {
  if (context.answers == nullptr) return nullptr;
  ASSIGN_OR_RETURN(const auto key, context.answers->KeyOfStated(stated));
  if (!key.has_value()) return nullptr;
  return context.answers->Find(*key, needs_study);
}

absl::Status CheckPlansStated(const v1::ComparePlansRequest& request) {
  std::vector<FieldViolation> found;
  for (const auto& [field, is_stated] : {std::pair("first_plan", request.has_first_plan()),
                                         std::pair("second_plan", request.has_second_plan())}) {
    if (!is_stated) found.push_back({.field = field, .description = "missing; required"});
  }
  return found.empty() ? absl::OkStatus() : InvalidFields(found);
}

}  // namespace

absl::StatusOr<v1::RecommendResponse> AnswerRecommend(const v1::RecommendRequest& request,
                                                      const QuestionContext& context,
                                                      std::chrono::system_clock::time_point end,
                                                      const RecordAnswer& record) {
  const bool needs_study = record != nullptr && !request.is_unrecorded();
  const std::string stated = request.question().SerializeAsString();
  ASSIGN_OR_RETURN(const auto known, KnownAnswer(context, stated, needs_study));
  if (known != nullptr) return ResponseOf(*known, needs_study);
  AnsweredQuestion answered;
  ASSIGN_OR_RETURN(answered.asked, FromWire(request.question(), context.knowledge));
  ASSIGN_OR_RETURN(const HistorySource history,
                   context.history(answered.asked.request.history_sequence));
  answered.history_sequence = history.sequence;
  std::optional<std::string> key;
  if (context.answers != nullptr) {
    context.answers->Learn(stated, answered.asked);
    ASSIGN_OR_RETURN(key, context.answers->KeyOf(answered.asked, history.sequence));
  }
  if (key.has_value()) {
    // The same question may have been stated in other bytes.
    if (const auto kept = context.answers->Find(*key, needs_study)) {
      return ResponseOf(*kept, needs_study);
    }
  }
  ASSIGN_OR_RETURN(const bool is_whole, Search(context, history, end, answered));
  if (absl::IsCancelled(answered.answer.status())) return answered.answer.status();
  if (!is_whole || !key.has_value()) {
    return ResponseOf(ResultOf(answered.answer), needs_study ? record(answered) : "");
  }
  std::string answer = ProtobufCodec(context.knowledge).encode_answer(*answered.answer);
  if (!needs_study) {
    context.answers->KeepUnrecorded(*key, std::move(answer));
    return ResponseOf(ResultOf(answered.answer), "");
  }
  bool is_own = false;
  const auto kept = context.answers->KeepRecorded(*key, std::move(answer), [&] {
    is_own = true;
    return record(answered);
  });
  if (!is_own) return ResponseOf(*kept, needs_study);
  return ResponseOf(ResultOf(answered.answer), kept->study_id);
}

absl::StatusOr<v1::SweepResponse> AnswerSweep(const v1::SweepRequest& request,
                                              const QuestionContext& context,
                                              std::chrono::system_clock::time_point end) {
  ASSIGN_OR_RETURN(ResolvedStudy asked, FromWire(request.question(), context.knowledge));
  ASSIGN_OR_RETURN(const SweepRange range, FromWire(request, asked.request, context.knowledge));
  ASSIGN_OR_RETURN(const HistorySource history, context.history(asked.request.history_sequence));
  ASSIGN_OR_RETURN(asked.request.deadline, LimitOf(asked, end));
  const StudyControl control = {
      .cancel = context.cancel, .history = history, .open_model = context.open_model};
  ASSIGN_OR_RETURN(const Sweep sweep, RunSweep(asked.request, range, context.knowledge, control));
  return ToWire(sweep);
}

v1::PlanComparison CompareEstimates(const v1::Estimate& first, const v1::Estimate& second) {
  v1::PlanComparison comparison;
  *comparison.mutable_first() = first;
  *comparison.mutable_second() = second;
  comparison.set_step_time_difference_seconds(second.step_time_seconds() -
                                              first.step_time_seconds());
  Subtract(first.breakdown_seconds(), second.breakdown_seconds(),
           *comparison.mutable_breakdown_difference_seconds());
  Subtract(first.memory_breakdown_bytes(), second.memory_breakdown_bytes(),
           *comparison.mutable_memory_difference_bytes());
  return comparison;
}

void AddCertainty(const v1::ComparedPair& pair, v1::PlanComparison& comparison) {
  if (!pair.has_faster_probability_ratio()) return;
  comparison.set_first_is_faster_probability_ratio(pair.faster_probability_ratio());
  // Older servers do not send the bounds.
  if (!pair.has_step_time_ratio_low() || !pair.has_step_time_ratio_high()) return;
  comparison.set_step_time_ratio_low(pair.step_time_ratio_low());
  comparison.set_step_time_ratio_high(pair.step_time_ratio_high());
  const double first = comparison.first().step_time_seconds();
  comparison.set_step_time_difference_low_seconds(first * (pair.step_time_ratio_low() - 1));
  comparison.set_step_time_difference_high_seconds(first * (pair.step_time_ratio_high() - 1));
}

absl::StatusOr<v1::ComparePlansResponse> ComparePlans(const v1::ComparePlansRequest& request,
                                                      const QuestionContext& context) {
  ASSIGN_OR_RETURN(const ResolvedStudy asked, FromWire(request.question(), context.knowledge,
                                                       FieldViolations(CheckPlansStated(request))));
  const v1::TuneRequest whole = ToWire(asked.request);
  v1::EvaluatePlansRequest cases = RequestOf(whole);
  *cases.add_cases() = CaseOf(whole, request.first_plan());
  *cases.add_cases() = CaseOf(whole, request.second_plan());
  ASSIGN_OR_RETURN(const HistorySource history, context.history(asked.request.history_sequence));
  return Compare(std::move(cases), history, context);
}

absl::StatusOr<v1::ComparePlansResponse> CompareStudyPlans(
    const HistoryQueries& history, const v1::CompareStudyPlansRequest& request,
    const QuestionContext& context) {
  ASSIGN_OR_RETURN(const v1::GetStudyResponse study, GetStudy(history, request.study_id()));
  ASSIGN_OR_RETURN(const StudyRecord record, history.GetStudy(request.study_id()));
  const int first = request.has_first_rank() ? request.first_rank() : 1;
  const int second = request.has_second_rank() ? request.second_rank() : 2;
  v1::EvaluatePlansRequest cases = RequestOf(study.question());
  for (const int rank : {first, second}) {
    const v1::RankedPlan* const plan = AnsweredPlan(study, rank);
    if (plan == nullptr) return UnknownPlan(study, rank);
    v1::EvaluateCase& wire = *cases.add_cases();
    wire = CaseOf(study.question(), plan->plan());
    // Settings that the question leaves open were chosen together with the plan.
    RETURN_IF_ERROR(SetSettings(*plan, *wire.mutable_workload()));
  }
  ASSIGN_OR_RETURN(const HistorySource learnt, context.history(record.history_sequence));
  return Compare(std::move(cases), learnt, context);
}

absl::StatusOr<std::string> TraceStudyPlan(const HistoryQueries& history,
                                           const v1::GetPlanRequest& request,
                                           const QuestionContext& context) {
  ASSIGN_OR_RETURN(const v1::GetStudyResponse study, GetStudy(history, request.study_id()));
  ASSIGN_OR_RETURN(const StudyRecord record, history.GetStudy(request.study_id()));
  const v1::RankedPlan* const plan = AnsweredPlan(study, request.rank());
  if (plan == nullptr) return UnknownPlan(study, request.rank());
  v1::EvaluateCase wire = CaseOf(study.question(), plan->plan());
  RETURN_IF_ERROR(SetSettings(*plan, *wire.mutable_workload()));
  QuestionResolver resolver(context.knowledge);
  ASSIGN_OR_RETURN(const ResolvedCase asked, FromWire(wire, resolver));
  ASSIGN_OR_RETURN(const std::vector<HistoryRow> own,
                   HistoryFromWire(RequestOf(study.question()), context.knowledge));
  ASSIGN_OR_RETURN(const HistorySource learnt, context.history(record.history_sequence));
  StoreHistory stored;
  if (learnt.read) {
    ASSIGN_OR_RETURN(stored, learnt.read(*asked.problem));
  }
  return TraceOfPlan(asked, context.knowledge, own, stored.rows);
}

}  // namespace meshwright
