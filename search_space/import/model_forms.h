#pragma once

#include <string>
#include <vector>

#include "search_space/import/config_reader.h"
#include "search_space/import/families.h"
#include "search_space/spec/model.h"

namespace meshwright {

// Reads the kind of the feed-forward from the activation that the file states, or that its class
// has. Adds a note if the activation is priced as another one.
void ReadActivation(ConfigReader& config, const Family& family, ModelSpec& model,
                    std::vector<std::string>& notes);

// Reads which linear layers have a bias. `model` has its norm already.
void ReadBiases(ConfigReader& config, const Family& family, ModelSpec& model);

// Reads where the norms are, and the factors and limits of attention, the feed-forward and the
// logits. A stated null is none. `model` has its plain sizes already.
void ReadForms(ConfigReader& config, const Family& family, ModelSpec& model);

}  // namespace meshwright
