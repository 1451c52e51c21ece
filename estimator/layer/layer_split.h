#pragma once

#include <vector>

#include "search_space/spec/framework_profile.h"
#include "search_space/spec/model.h"

namespace meshwright {

// Layers per pipeline stage as the framework splits them when the plan does not say; sums to the
// model's layer_count, may hold empty stages (LayerSplit::kByCost).
std::vector<int> SplitLayers(const ModelSpec& model, const FrameworkProfile& profile,
                             int stage_count);

}  // namespace meshwright
