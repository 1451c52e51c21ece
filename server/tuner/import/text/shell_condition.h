#pragma once

#include <optional>
#include <span>

#include "server/tuner/import/text/shell_lexer.h"
#include "server/tuner/import/text/shell_variables.h"

namespace meshwright {

// Returns the truth of a condition of `if` that compares texts and numbers ("[ $A -eq 1 ]", "[[ -n
// "$B" ]] && ..."). A variable without a value is empty for -n and -z, as in a shell without it.
// Returns nullopt if it depends on files, on commands or on such a variable otherwise.
std::optional<bool> ShellCondition(std::span<const ShellToken> tokens,
                                   const ShellVariables& variables);

}  // namespace meshwright
