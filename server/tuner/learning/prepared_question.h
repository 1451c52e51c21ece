#pragma once

#include <optional>
#include <vector>

#include "estimator/learning/calibration.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// A calibration with the runs behind it.
struct LearntCalibration {
  Calibration calibration = {};
  std::optional<CalibrationReport> report = {};  // absent: no run teaches anything
};

// A question that is ready to be answered: resolved, with the history that joins it and the
// resulting calibration.
struct PreparedQuestion {
  StudyRequest request = {};  // includes the number and the warnings of the store's history
  Problem problem = {};
  std::optional<ResolvedPlan> baseline = {};  // plan of `request.baseline`
  std::vector<ResolvedRun> runs = {};         // first the request's, then the store's
  LearntCalibration learnt = {};
};

}  // namespace meshwright
