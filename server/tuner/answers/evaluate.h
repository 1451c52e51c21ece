#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "estimator/learning/uncertainty.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

struct CalibratedEstimate {
  Estimate estimate = {};
  TimeUncertainty uncertainty = {};
  std::optional<CalibrationReport> calibration = {};  // absent: nothing was learnt
};

// Returns the estimate of one given plan, with all applied defaults and warnings, and the
// calibration behind it.
absl::StatusOr<CalibratedEstimate> EvaluatePlan(const ResolvedCase& asked, Calibrator& calibrator);

}  // namespace meshwright
