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
  std::optional<CalibrationReport> report = {};  // absent: no run of the history teaches anything
};

// A question that is ready to be answered: resolved, with the history that joins it and what that
// teaches.
struct PreparedQuestion {
  StudyRequest request = {};  // with the number and the warnings of the store's history
  Problem problem = {};
  std::vector<ResolvedRun> runs = {};  // of the request's history, then of the store's
  LearntCalibration learnt = {};
};

}  // namespace meshwright
