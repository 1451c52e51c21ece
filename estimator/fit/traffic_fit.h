#pragma once

#include <span>

#include "estimator/fit/measured.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"

namespace meshwright {

// The constants of StreamTime (terms/stream.h).
struct TrafficFit {
  Seconds fixed = Seconds(0);
  double efficiency = 0;             // share of the chip's nominal bandwidth
  double cache_bandwidth_ratio = 1;  // 1 if no point is small enough to tell
};

// Fits the constants to the points, which are not empty, on a chip with the nominal bandwidth and
// the cache of `chip`.
TrafficFit FitTraffic(std::span<const MeasuredTraffic> points, const ChipSpec& chip);

Seconds TrafficTime(const TrafficFit& fit, Bytes bytes, const ChipSpec& chip);

// Returns the error at points that the fit had not seen: every fifth is held out in turn.
FitError TrafficHeldOutError(std::span<const MeasuredTraffic> points, const ChipSpec& chip);

}  // namespace meshwright
