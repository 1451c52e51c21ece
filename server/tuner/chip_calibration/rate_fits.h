#pragma once

#include <vector>

#include "estimator/fit/measured.h"
#include "server/tuner/chip_calibration/measurements.h"

namespace meshwright {

// A number fitted to rows of measurements: the median of the values of the rows.
struct RateFit {
  double value = 0;
  int row_count = 0;    // rows that have a value of it
  FitError error = {};  // error of each row's time by the median of the other rows
};

// Rate of copies in bytes per second; absent without rows. `fastest` is the rate of one row.
struct StreamFit {
  RateFit rate = {};
  double fastest = 0;
};
StreamFit FitStreams(const std::vector<MeasuredTraffic>& rows);

// Fits ChipSpec::overlap_slowdown: together = longer + slowdown * shorter. Uses rows whose two
// parts are of the same order of magnitude, since others carry no information.
RateFit FitOverlap(const std::vector<MeasuredOverlap>& rows);

}  // namespace meshwright
