#pragma once

#include <optional>
#include <string_view>

namespace meshwright {

// Returns the value of whole numbers with + - * / %, comparison-free, and brackets, as "$((...))"
// of a shell computes it; nullopt for anything else.
std::optional<long long> ShellArithmetic(std::string_view text);

}  // namespace meshwright
