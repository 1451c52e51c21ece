#pragma once

#include <optional>

#include "search_space/spec/framework_profile.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The layers of a plan that are recomputed.
enum class RecomputeForm { kNothing, kSelective, kEveryLayer, kSomeLayers };

RecomputeForm RecomputeFormOf(const ModelSpec& model, const FrameworkProfile& profile,
                              const ParallelPlan& plan);

// Returns n, at least 2, if the plan recomputes as many layers of each stage as every n-th layer
// makes, in full.
std::optional<int> RecomputeInterval(const ModelSpec& model, const FrameworkProfile& profile,
                                     const ParallelPlan& plan);

}  // namespace meshwright
