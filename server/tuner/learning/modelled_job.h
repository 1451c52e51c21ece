#pragma once

#include <string>

#include "estimator/learning/calibration.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"

namespace meshwright {

// Returns a text that is equal for clusters of the same nodes (chips, devices per node and links),
// whatever their number. Limits on a chip's memory or power do not count.
std::string NodesOf(const Problem& problem);

// Returns what learning has to know of a plan that ran, modelled under `known`. It takes a tenth of
// a millisecond, so whoever keeps a run for many answers keeps this too.
ModelledJob ModelJob(const Problem& problem, const ParallelPlan& plan,
                     const Calibration& known = {});

}  // namespace meshwright
