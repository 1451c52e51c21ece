#pragma once

#include <optional>

#include "estimator/analytic_model.h"
#include "search_space/plan.h"
#include "server/tuner/problem.h"

namespace meshwright {

// What a careful person would take by hand: the least tensor x pipeline, tensor inside the node
// first, that fits with micro-batch 1, ZeRO-1 and no recomputation, else with full recomputation
// (contract, "tune"). With experts, the least expert parallelism that makes it fit. Nothing when no
// such plan fits.
std::optional<ParallelPlan> DefaultBaseline(const Problem& problem, AnalyticModel& model);

}  // namespace meshwright
