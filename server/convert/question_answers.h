#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "meshwright/v1/estimate.pb.h"
#include "meshwright/v1/service.pb.h"
#include "server/engine/answer_memory.h"
#include "server/engine/history_queries.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Returns the measurements to learn from as of one moment: now, or up to a sequence number.
using OpenHistory = std::function<absl::StatusOr<HistorySource>(std::optional<std::int64_t>)>;

// The sources that a question is answered from, beside the question itself.
struct QuestionContext {
  const Knowledge& knowledge;
  OpenHistory history = {};
  OpenPlanModel open_model = {};  // null: there are no vendors' models
  std::stop_token cancel = {};
  AnswerMemory* answers = nullptr;  // null: equal questions are searched again
};

// A question that a search has answered, and what the answer rests on.
struct AnsweredQuestion {
  ResolvedStudy asked = {};
  std::int64_t history_sequence = 0;
  absl::StatusOr<StudyAnswer> answer = absl::UnknownError("not answered");
};

// Makes a study of an answer and returns its id; empty if it could not. Null: none is made.
using RecordAnswer = std::function<std::string(const AnsweredQuestion&)>;

// Answers RecommendationService.Recommend: at once if an equal question had been answered from the
// same measurements, and else by a search until `end` at the latest. Answers that a deadline cut
// are recorded, but not remembered. The status has the mistakes of the question, or
// DEADLINE_EXCEEDED if there is no time left, or what the search failed with; FAILED_PRECONDITION
// with reason NO_FEASIBLE_PLAN if nothing fits.
absl::StatusOr<v1::RecommendResponse> AnswerRecommend(const v1::RecommendRequest& request,
                                                      const QuestionContext& context,
                                                      std::chrono::system_clock::time_point end,
                                                      const RecordAnswer& record = {});

// Answers RecommendationService.Sweep: each of its searches until `end` at the latest. The status
// has the mistakes of the question and of what it varies, or DEADLINE_EXCEEDED if there is no time
// left.
absl::StatusOr<v1::SweepResponse> AnswerSweep(const v1::SweepRequest& request,
                                              const QuestionContext& context,
                                              std::chrono::system_clock::time_point end);

// Returns both estimates and the difference in each cause of time and each kind of memory.
v1::PlanComparison CompareEstimates(const v1::Estimate& first, const v1::Estimate& second);

// Adds which plan is faster, and by how much, from a pair whose a is `first` and whose b is
// `second`.
void AddCertainty(const v1::ComparedPair& pair, v1::PlanComparison& comparison);

// Answers RecommendationService.ComparePlans. INVALID_ARGUMENT names every bad field of the
// question and of both plans.
absl::StatusOr<v1::ComparePlansResponse> ComparePlans(const v1::ComparePlansRequest& request,
                                                      const QuestionContext& context);

// Answers TuningService.CompareStudyPlans: both plans under the study's question, with the
// measurements that the study could learn from.
absl::StatusOr<v1::ComparePlansResponse> CompareStudyPlans(
    const HistoryQueries& history, const v1::CompareStudyPlansRequest& request,
    const QuestionContext& context);

// Returns the simulated step of a plan that the study ranked, in the trace event format
// (timeline.h), by the built-in model with the measurements that the study could learn from.
absl::StatusOr<std::string> TraceStudyPlan(const HistoryQueries& history,
                                           const v1::GetPlanRequest& request,
                                           const QuestionContext& context);

}  // namespace meshwright
