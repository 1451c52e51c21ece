#pragma once

#include "search_space/import/config_reader.h"
#include "search_space/import/families.h"
#include "search_space/spec/model.h"

namespace meshwright {

// Reads what the layers of a model are made of: experts, latent and linear attention, state spaces,
// windows, and which layers have which. `model` has its plain sizes already.
void ReadLayers(ConfigReader& config, const Family& family, ModelSpec& model);

}  // namespace meshwright
