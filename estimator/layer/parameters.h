#pragma once

#include <algorithm>

#include "search_space/spec/model.h"

namespace meshwright {

// Parameters that one device holds, by what divides them: docs/cost_model.md "Static memory".
struct LayerParameters {
  double tensor_split = 0;  // matrices divided by tensor parallelism, before the division
  double replicated = 0;    // norms, routers, MLA's down projections
  double expert = 0;        // all routed experts of the layer, before the division by e and x
};

LayerParameters ParametersOf(const ModelSpec& model, bool is_moe);

// On one device: dense part (t divides it) and expert part (e and x divide it).
double DenseParameters(const LayerParameters& parameters, int tensor_parallel);
double ExpertParameters(const LayerParameters& parameters, int expert_parallel,
                        int expert_tensor_parallel);

// Elements of the distinct weight matrices of a layer on one device: what a framework that caches
// one dummy gradient a shape keeps.
double DistinctMatrixElements(const ModelSpec& model, bool is_moe, int tensor_parallel);

// How many of `count` layers, the first of them layer `first`, have no experts.
inline int DenseLayerCount(const ModelSpec& model, int first, int count) {
  if (!model.moe.has_value()) return count;
  return std::clamp(model.moe->first_dense_layer_count - first, 0, count);
}

}  // namespace meshwright
