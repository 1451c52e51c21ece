#pragma once

#include "search_space/import/config_reader.h"
#include "search_space/import/layer_runs.h"
#include "search_space/spec/model.h"

namespace meshwright {

// Reads the sizes of linear attention, if the file states any. The plain sizes are set.
void ReadLinearAttention(ConfigReader& config, ModelSpec& model);

// Gives linear attention to the layers that have it. MiniMax has a number for each layer,
// Kimi-Linear a list of layers, Qwen3-Next and Ring-linear an interval.
void ReadLinearLayers(ConfigReader& config, const ModelSpec& model, Layers& layers);

}  // namespace meshwright
