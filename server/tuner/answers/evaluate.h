#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The estimate of one given plan, with all applied defaults and warnings. `history` calibrates it.
absl::StatusOr<Estimate> EvaluatePlan(const EvaluateRequest& request, const Knowledge& knowledge,
                                      const std::vector<HistoryRow>& history);

struct CalibratedEstimate {
  Estimate estimate = {};
  std::optional<CalibrationReport> calibration = {};  // absent: nothing was learnt
};

// The same for many plans, each with the calibration behind it.
absl::StatusOr<CalibratedEstimate> EvaluatePlan(const EvaluateRequest& request,
                                                const Knowledge& knowledge, Calibrator& calibrator);

}  // namespace meshwright
