#pragma once

#include <vector>

#include "estimator/model/stage_runs.h"
#include "estimator/pipeline/program.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/units.h"

namespace meshwright {

// The messages between neighbouring stages.
struct PipelineMessages {
  Seconds each = Seconds(0);  // every message, if all are equal
  // Otherwise those behind each stage, as in PipelineProgram; else empty.
  std::vector<Hop> hops = {};
};

PipelineMessages MessagesOf(const StageRuns& stages, const EstimatorProblem& problem);

}  // namespace meshwright
