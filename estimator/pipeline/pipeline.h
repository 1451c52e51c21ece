#pragma once

#include <span>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

struct PipelineShape {
  Schedule schedule = Schedule::k1f1b;
  int micro_batches = 1;
  int stages = 1;
  int virtual_stages = 1;               // chunks per device
  Seconds point_to_point = Seconds(0);  // one message between neighbours, if all are equal
  bool overlaps_point_to_point = false;
};

// Returns the time that a micro-batch occupies a stage: with its point-to-point messages unless
// they are overlapped.
Seconds OccupiedTime(Seconds wall, const PipelineShape& shape, int stage_count);

// Neighbouring stages that take equally long.
struct OccupiedRun {
  Seconds time = Seconds(0);  // OccupiedTime of each
  int count = 1;
};

// Returns the time from the first forward to the last backward of a step, by the closed form of
// docs/cost_model/pipeline.md (Narayanan et al. 2021, arXiv 2104.04473, with the bottleneck form
// of Alpa, arXiv 2201.12023, and the round trip of the in-flight window). Exact for equal stages.
Seconds PipelineTime(std::span<const OccupiedRun> runs, const PipelineShape& shape);

// Returns the same for messages that differ and run beside computation. `behind` are both messages
// between a stage of each run and the next stage: zero for the last stage, a run of its own.
Seconds PipelineTime(std::span<const OccupiedRun> runs, std::span<const Seconds> behind,
                     const PipelineShape& shape);

// Returns true if this closed form covers the schedule; all others can only be simulated.
bool HasClosedForm(Schedule schedule);

}  // namespace meshwright
