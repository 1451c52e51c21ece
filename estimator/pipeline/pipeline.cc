#include "estimator/pipeline/pipeline.h"

#include <algorithm>

namespace meshwright {

Seconds OccupiedTime(Seconds wall, const PipelineShape& shape, int stage_count) {
  if (stage_count == 1 || shape.overlaps_point_to_point) return wall;
  return wall + 2.0 * shape.virtual_stages * shape.point_to_point;
}

Seconds PipelineTime(std::span<const OccupiedRun> runs, const PipelineShape& shape) {
  const double v = shape.virtual_stages;
  const Seconds message =
      shape.overlaps_point_to_point ? shape.point_to_point : Seconds(0);  // else in `runs`
  Seconds longest(0);
  Seconds sum(0);
  Seconds period(0);
  int behind = 0;  // stages after the run
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    longest = std::max(longest, run->time);
    if (shape.schedule == Schedule::k1f1b) {
      // The window of stage i is p - i micro-batches, which cover the way to the last stage and
      // back. Along a run the quotient is monotonic, so the ends of the run bound it.
      for (const int k : {1, run->count}) {
        const Seconds way = sum + k * run->time + 2.0 * (behind + k - 1) * message;
        period = std::max(period, way / (behind + k));
      }
    }
    sum += run->count * run->time;
    behind += run->count;
  }
  period = std::max(period, longest);
  const Seconds ramp = sum / v + longest * (1 - 1 / v) + 2.0 * (behind - 1) * message;
  return (shape.micro_batches - 1) * period + ramp;
}

bool HasClosedForm(Schedule schedule) {
  return schedule == Schedule::kGpipe || schedule == Schedule::k1f1b ||
         schedule == Schedule::kInterleaved1f1b;
}

}  // namespace meshwright
