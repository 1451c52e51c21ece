#pragma once

#include "search_space/import/config_reader.h"
#include "search_space/import/layer_runs.h"
#include "search_space/spec/model.h"

namespace meshwright {

// Reads the layers of LongCat-Flash, whose experts stand beside two attentions with a dense
// feed-forward each (arXiv 2509.01322, "shortcut-connected MoE"). Each becomes three layers: an
// attention with its dense feed-forward, the experts, and the second attention with its own. A
// token's experts are those that compute: a balanced router sends as many of a token's choices to
// experts that compute nothing as there are of them among all. Files without such experts are left
// as they are.
void ReadShortcutLayers(ConfigReader& config, Layers& layers, ModelSpec& model);

}  // namespace meshwright
