#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshwright {

// Returns a JSON value as a message shows it: ASCII, at most 60 characters and "..." after them.
std::string ShownValue(const nlohmann::json& value);

}  // namespace meshwright
