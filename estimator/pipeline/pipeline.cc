#include "estimator/pipeline/pipeline.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/inlined_vector.h"

namespace meshwright {

namespace {

// `messages` returns the time of both messages over the last hops of the pipeline, of which the
// first is behind a stage of `run`.
template <typename Messages>
Seconds TimeOf(std::span<const OccupiedRun> runs, const PipelineShape& shape,
               const Messages& messages) {
  const double v = shape.virtual_stages;
  Seconds longest(0);
  Seconds sum(0);
  Seconds period(0);
  int behind = 0;  // stages after the run
  for (std::size_t i = runs.size(); i-- > 0;) {
    const OccupiedRun& run = runs[i];
    longest = std::max(longest, run.time);
    if (shape.schedule == Schedule::k1f1b) {
      // The window of stage i is p - i micro-batches, which cover the way to the last stage and
      // back. Along a run the quotient is monotonic, so the ends of the run bound it.
      for (const int k : {1, run.count}) {
        const Seconds way = sum + k * run.time + messages(i, behind + k - 1);
        period = std::max(period, way / (behind + k));
      }
    }
    sum += run.count * run.time;
    behind += run.count;
  }
  period = std::max(period, longest);
  const Seconds ramp = sum / v + longest * (1 - 1 / v) + messages(0, behind - 1);
  return (shape.micro_batches - 1) * period + ramp;
}

}  // namespace

Seconds OccupiedTime(Seconds wall, const PipelineShape& shape, int stage_count) {
  if (stage_count == 1 || shape.overlaps_point_to_point) return wall;
  return wall + 2.0 * shape.virtual_stages * shape.point_to_point;
}

Seconds PipelineTime(std::span<const OccupiedRun> runs, const PipelineShape& shape) {
  const Seconds message =
      shape.overlaps_point_to_point ? shape.point_to_point : Seconds(0);  // else in `runs`
  return TimeOf(runs, shape, [&](std::size_t /*run*/, int hops) { return 2.0 * hops * message; });
}

Seconds PipelineTime(std::span<const OccupiedRun> runs, std::span<const Seconds> behind,
                     const PipelineShape& shape) {
  absl::InlinedVector<Seconds, 8> later(runs.size(), Seconds(0));  // messages behind each run
  absl::InlinedVector<int, 8> stages(runs.size(), 0);              // stages behind each run
  for (std::size_t i = runs.size() - 1; i > 0; --i) {
    later[i - 1] = later[i] + runs[i].count * behind[i];
    stages[i - 1] = stages[i] + runs[i].count;
  }
  return TimeOf(runs, shape, [&](std::size_t run, int hops) {
    return later[run] + (hops + 1 - stages[run]) * behind[run];
  });
}

bool HasClosedForm(Schedule schedule) {
  return schedule == Schedule::kGpipe || schedule == Schedule::k1f1b ||
         schedule == Schedule::kInterleaved1f1b;
}

}  // namespace meshwright
