#pragma once

#include <algorithm>

#include "search_space/spec/model.h"

namespace meshwright {

// The parameters of a layer by what divides them between devices: docs/cost_model/memory.md "Static
// memory".
struct LayerParameters {
  double tensor_split = 0;  // matrices divided by tensor parallelism, before the division
  double replicated = 0;    // norms, routers, MLA's down projections
  double expert = 0;        // all routed experts of the layer, before the division by e and x
};

LayerParameters ParametersOf(const ModelSpec& model, bool is_moe);

// Return the parameters on one device: the dense part, which t divides, and the expert part, which
// e and x divide.
double DenseParameters(const LayerParameters& parameters, int tensor_parallel);
double ExpertParameters(const LayerParameters& parameters, int expert_parallel,
                        int expert_tensor_parallel);

// Returns the elements of the distinct weight matrices of a layer on one device. A framework that
// caches one dummy gradient per shape keeps as many.
double DistinctMatrixElements(const ModelSpec& model, bool is_moe, int tensor_parallel);

// Returns how many of `count` layers from layer `first` on have no experts.
inline int DenseLayerCount(const ModelSpec& model, int first, int count) {
  if (!model.moe.has_value()) return count;
  return std::clamp(model.moe->first_dense_layer_count - first, 0, count);
}

}  // namespace meshwright
