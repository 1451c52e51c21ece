#pragma once

#include <vector>

#include "search_space/spec/model.h"

namespace meshwright {

// The kind of each layer of a model.
using Layers = std::vector<LayerKind>;

// Puts the layers, of which there is at least one, into the model: in the short form if there is
// one (attention in every layer, and experts behind dense layers), else as the shortest runs that
// repeat to all layers.
void SetLayers(const Layers& layers, ModelSpec& model);

}  // namespace meshwright
