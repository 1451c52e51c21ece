#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "estimator/problem/estimator_problem.h"
#include "search_space/base/status.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// Returns the chips of the cluster that the workload's framework does not run on, and the kernel of
// attention if those chips do not run it. No plan changes that. Each description ends with its
// source, the framework's own check or documentation.
std::vector<FieldViolation> ChipViolations(const EstimatorProblem& problem);

// Returns the kernel of attention that a framework runs on a chip in place of its usual one;
// nullopt if the chip runs the usual one.
std::optional<AttentionKernel> SubstituteKernel(std::string_view framework, AttentionKernel usual,
                                                const ChipSpec& chip);

}  // namespace meshwright
