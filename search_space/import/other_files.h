#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace meshwright {

// Returns what a file from beside a model's weights is that is not its configuration, and which
// file is wanted; "" if it may be a configuration.
std::string_view WhatOtherFile(const nlohmann::json& config);

// Returns why a configuration is not of a decoder-only language model: "a model with an encoder and
// a decoder"; "" if it may be one.
std::string WhyNoDecoder(const nlohmann::json& config);

// Returns the first class that the file names, or "".
std::string ArchitectureOf(const nlohmann::json& config);

}  // namespace meshwright
