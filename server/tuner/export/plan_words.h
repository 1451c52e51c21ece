#pragma once

#include <string>
#include <string_view>

#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Words for what a training script has to say because the framework's file has no place for it.

// Returns the sizes of a model: "80 layers, hidden size 8192, ...".
std::string ModelSizes(const ModelSpec& model);

// Returns the layers that the script recomputes: "every layer", "the first 5, 5, 4, 4 layers of the
// stages".
std::string RecomputedLayersText(const Problem& problem, const ParallelPlan& plan);

}  // namespace meshwright
