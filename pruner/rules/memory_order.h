#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/problem/estimator_problem.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Compares the memory that two plans need, whatever the sizes of the model. If `plan` needs at
// least as much as `other`, returns one line for each dimension in which it needs more
// ("micro_batch_size 4 instead of 2"), and no lines if both need the same. Returns nullopt if the
// order does not compare the plans: it is partial, and compares only if every term of the memory
// model agrees (docs/pruning/memory_order.md). Both plans must be legal for the problem.
std::optional<std::vector<std::string>> NeedsAtLeast(const ParallelPlan& plan,
                                                     const ParallelPlan& other,
                                                     const EstimatorProblem& problem);

}  // namespace meshwright
