#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/problem/estimator_problem.h"
#include "search_space/base/status.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"

namespace meshwright {

// Returns the chips of the cluster that the workload's framework does not run on, and the kernel of
// attention if those chips do not run it or if it does not compute the model's attention. No plan
// changes that. Each description ends with its source, the framework's own check or documentation.
std::vector<FieldViolation> ChipViolations(const EstimatorProblem& problem);

// Returns the kernel of attention that a framework runs on a chip in place of its usual one;
// nullopt if the chip runs the usual one.
std::optional<AttentionKernel> SubstituteKernel(std::string_view framework, AttentionKernel usual,
                                                const ChipSpec& chip);

// A kernel in place of another one, and why, for people.
struct OtherKernel {
  AttentionKernel kernel = AttentionKernel::kUnfused;
  std::string reason = {};
};

// Returns the kernel that computes a model's attention in a framework, if `usual` does not: sinks
// and soft caps are not in every kernel.
std::optional<OtherKernel> KernelOfModel(std::string_view framework, AttentionKernel usual,
                                         const ModelSpec& model);

}  // namespace meshwright
