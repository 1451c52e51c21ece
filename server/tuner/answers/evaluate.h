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

// Returns the estimate of one given plan, with all applied defaults and warnings. `history`
// calibrates it.
absl::StatusOr<Estimate> EvaluatePlan(const EvaluateRequest& request, const Knowledge& knowledge,
                                      const std::vector<HistoryRow>& history);

struct CalibratedEstimate {
  Estimate estimate = {};
  std::optional<CalibrationReport> calibration = {};  // absent: nothing was learnt
};

// Does the same for one of many plans, and returns the calibration behind it.
absl::StatusOr<CalibratedEstimate> EvaluatePlan(const EvaluateRequest& request,
                                                const Knowledge& knowledge, Calibrator& calibrator);

}  // namespace meshwright
