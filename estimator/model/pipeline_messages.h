#pragma once

#include <vector>

#include "estimator/model/stage.h"
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

// Returns the messages between two stages that name their pools and follow one another.
Hop HopBetween(const StageDevices& from, const StageDevices& to, const EstimatorProblem& problem);

// Returns the time in which the first and the last stage add up the gradients of an embedding that
// the output layer shares, once in a step: 0 unless they are in different pools.
Seconds TiedGradientsTime(const StageDevices& first, const StageDevices& last,
                          double bytes_per_parameter, const EstimatorProblem& problem);

}  // namespace meshwright
