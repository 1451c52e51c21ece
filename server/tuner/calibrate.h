#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "estimator/analytic_model.h"
#include "server/tuner/study.h"

namespace meshwright {

// One factor for time and one for memory from measured rows of the same chip and framework as the
// problem: the median of measured over predicted, drawn towards 1 while rows are few, with the
// spread of the rows. Out-of-memory rows mark the modelled size at which such chips fail, unless a
// row that ran is modelled larger. Rows of other chips or frameworks are left out.
absl::StatusOr<Calibration> Calibrate(const std::vector<HistoryRow>& history,
                                      const Problem& problem, const Knowledge& knowledge);

EstimatorProblem ViewOf(const Problem& problem);

}  // namespace meshwright
