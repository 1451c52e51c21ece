#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshwright {

// Each returns an object as a file of its format, with keys in the order in which they were set.
// Values are booleans, numbers, texts, lists of those, lists of lists, and objects.
std::string JsonText(const nlohmann::ordered_json& config);
std::string YamlText(const nlohmann::ordered_json& config);
std::string TomlText(const nlohmann::ordered_json& config);

}  // namespace meshwright
