#include "estimator/pipeline.h"

#include <algorithm>

namespace meshwright {

Seconds OccupiedTime(Seconds wall, const PipelineShape& shape, int stage_count) {
  if (stage_count == 1 || shape.overlaps_point_to_point) return wall;
  return wall + 2.0 * shape.virtual_stages * shape.point_to_point;
}

Seconds PipelineTime(std::span<const Seconds> occupied, const PipelineShape& shape) {
  const auto p = static_cast<int>(occupied.size());
  const double v = shape.virtual_stages;
  const Seconds message =
      shape.overlaps_point_to_point ? shape.point_to_point : Seconds(0);  // else in `occupied`
  Seconds longest(0);
  Seconds sum(0);
  Seconds period(0);
  // From the last stage to the first: the window of stage i is p - i micro-batches.
  for (int i = p - 1; i >= 0; --i) {
    const Seconds w = occupied[static_cast<std::size_t>(i)];
    longest = std::max(longest, w);
    sum += w;
    if (shape.schedule == Schedule::k1f1b) {
      period = std::max(period, (sum + 2.0 * (p - 1 - i) * message) / (p - i));
    }
  }
  period = std::max(period, longest);
  const Seconds ramp = sum / v + longest * (1 - 1 / v) + 2.0 * (p - 1) * message;
  return (shape.micro_batches - 1) * period + ramp;
}

bool IsModelled(Schedule schedule) {
  return schedule == Schedule::kGpipe || schedule == Schedule::k1f1b ||
         schedule == Schedule::kInterleaved1f1b;
}

}  // namespace meshwright
