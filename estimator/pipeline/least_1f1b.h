#pragma once

#include "estimator/pipeline/program.h"
#include "search_space/base/units.h"

namespace meshwright {

// A stage of a pipeline under 1F1B, and what its neighbours do while it cannot work.
struct SurroundedStage {
  StageWork work = {};
  int micro_batches = 1;
  int stages_behind = 0;
  // The time of both passes of the stages before it and of those behind it, with the messages that
  // lie between.
  Seconds before = Seconds(0);
  Seconds behind = Seconds(0);
};

// Returns a lower bound of the pipeline that holds this stage: its own work, the passes of the
// stages before it, and the time in which it waits for the stages behind it although its warm-up
// gives it something to do (docs/cost_model/pipeline.md, "Bound and closed form").
Seconds LeastTimeAround(const SurroundedStage& stage);

// Returns the largest of these bounds. The program runs 1F1B with one chunk a device.
Seconds Least1f1bTime(const PipelineProgram& program);

}  // namespace meshwright
