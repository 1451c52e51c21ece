#pragma once

#include <utility>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/base/status.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/answers/explain.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/answers/timeline.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/questions.h"

namespace meshwright {

// These functions resolve what is asked and do what their namesakes do.

inline absl::StatusOr<StudyAnswer> RunStudy(StudyRequest request, const Knowledge& knowledge,
                                            const StudyControl& control) {
  request.history = ResolvedRows(std::move(request.history));
  ASSIGN_OR_RETURN(const ResolvedStudy study, ResolveStudy(std::move(request), knowledge));
  return RunStudy(study, knowledge, control);
}

inline absl::StatusOr<Explanation> Explain(StudyRequest request, const Knowledge& knowledge,
                                           const StudyControl& control) {
  request.history = ResolvedRows(std::move(request.history));
  ASSIGN_OR_RETURN(ResolvedStudy study, ResolveStudy(std::move(request), knowledge));
  return Explain(std::move(study), knowledge, control);
}

// `rows` calibrate the estimate.
inline absl::StatusOr<Estimate> EvaluatePlan(const EvaluateRequest& request,
                                             const Knowledge& knowledge,
                                             const std::vector<HistoryRow>& rows) {
  const std::vector<HistoryRow> history = ResolvedRows(rows);
  QuestionResolver resolver(knowledge);
  ASSIGN_OR_RETURN(const ResolvedCase asked, ResolveCase(request, resolver));
  Calibrator calibrator(history, knowledge);
  ASSIGN_OR_RETURN(CalibratedEstimate evaluated, EvaluatePlan(asked, calibrator));
  return std::move(evaluated.estimate);
}

inline absl::StatusOr<Timeline> TimelineOfPlan(const EvaluateRequest& request,
                                               const Knowledge& knowledge,
                                               const std::vector<HistoryRow>& rows) {
  const std::vector<HistoryRow> history = ResolvedRows(rows);
  QuestionResolver resolver(knowledge);
  ASSIGN_OR_RETURN(const ResolvedCase asked, ResolveCase(request, resolver));
  return TimelineOfPlan(asked, knowledge, history);
}

}  // namespace meshwright
