#pragma once

#include <optional>
#include <vector>

#include "estimator/analytic_model.h"
#include "server/tuner/study.h"

namespace meshwright {

// What there is to say of a calibration that was learnt from `runs`; nothing when none of them
// taught anything. Its id is a digest of the job, the program's version and all runs that count.
std::optional<CalibrationReport> ReportCalibration(const Problem& problem,
                                                   const Calibration& calibration,
                                                   std::vector<PastRun> runs);

}  // namespace meshwright
