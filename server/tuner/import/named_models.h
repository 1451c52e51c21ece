#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/spec/model.h"

namespace meshwright {

// Returns the model that configurations of a framework name instead of stating its sizes
// (named_models.json), such as "llama3/8B" of torchtitan; nullopt if the name is not known.
std::optional<ModelSpec> NamedModel(std::string_view framework, std::string_view name);

// Returns the names of a framework's models, in alphabetical order.
std::vector<std::string> NamesOfModels(std::string_view framework);

}  // namespace meshwright
