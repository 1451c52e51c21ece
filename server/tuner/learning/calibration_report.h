#pragma once

#include <optional>
#include <vector>

#include "estimator/learning/calibration.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// Returns the report on a calibration that was learnt from `runs`, or nullopt if none of them
// taught anything. Its id is a digest of the job, the program's version and all runs that count.
std::optional<CalibrationReport> ReportCalibration(const Problem& problem,
                                                   const Calibration& calibration,
                                                   std::vector<PastRun> runs);

}  // namespace meshwright
