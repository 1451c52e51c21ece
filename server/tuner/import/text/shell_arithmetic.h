#pragma once

#include <optional>
#include <string_view>

namespace meshwright {

// Returns the value of whole numbers with + - * / % and brackets, as "$((...))" of a shell computes
// it; nullopt for anything else, such as a comparison.
std::optional<long long> ShellArithmetic(std::string_view text);

}  // namespace meshwright
