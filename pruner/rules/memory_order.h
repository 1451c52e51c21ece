#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/problem/estimator_problem.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Whether `plan` needs at least the memory of `other`, whatever the sizes of the model: one line
// for each dimension in which it needs more ("micro_batch_size 4 instead of 2"), none where both
// need the same. Nothing where the order does not say: it is partial, and orders only what holds in
// every term of the model of memory (docs/pruning.md "One order over all dimensions"). Both plans
// are legal and of the problem.
std::optional<std::vector<std::string>> NeedsAtLeast(const ParallelPlan& plan,
                                                     const ParallelPlan& other,
                                                     const EstimatorProblem& problem);

}  // namespace meshwright
