#pragma once

#include <vector>

#include "estimator/fit/measured.h"
#include "server/tuner/chip_calibration/measurements.h"

namespace meshwright {

// One number that rows of measurements agree on more or less: the median of what each of them says.
struct RateFit {
  double value = 0;
  int row_count = 0;    // that say something of it
  FitError error = {};  // of each row's time, by the median of the others
};

// Bytes a second of copies; nothing without rows. `fastest` is that of one row.
struct StreamFit {
  RateFit rate = {};
  double fastest = 0;
};
StreamFit FitStreams(const std::vector<MeasuredTraffic>& rows);

// ChipSpec::overlap_slowdown: together = longer + slowdown * shorter, of rows whose two parts are
// of one order of magnitude, since others say nothing.
RateFit FitOverlap(const std::vector<MeasuredOverlap>& rows);

}  // namespace meshwright
