#pragma once

#include "search_space/spec/layer_parameters.h"
#include "search_space/spec/model.h"

namespace meshwright {

// Return the parameters on one device: the dense part, which t divides, and the expert part, which
// e and x divide.
double DenseParameters(const LayerParameters& parameters, int tensor_parallel);
double ExpertParameters(const LayerParameters& parameters, int expert_parallel,
                        int expert_tensor_parallel);

// Returns the elements of the distinct weight matrices of a layer on one device. A framework that
// caches one dummy gradient per shape keeps as many.
double DistinctMatrixElements(const ModelSpec& model, const LayerKind& kind, int tensor_parallel);

}  // namespace meshwright
