#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace meshwright {

// Returns the word that a person most likely meant by `given`, or nullopt if none is close.
std::optional<std::string_view> ClosestWord(std::string_view given,
                                            std::span<const std::string_view> words);

}  // namespace meshwright
