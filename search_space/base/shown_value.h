#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshwright {

// Returns a JSON value as a message shows it: in ASCII, cut after 60 characters and then followed
// by "...".
std::string ShownValue(const nlohmann::json& value);

}  // namespace meshwright
