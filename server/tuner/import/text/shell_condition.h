#pragma once

#include <optional>
#include <span>
#include <string>

#include "server/tuner/import/text/shell_lexer.h"
#include "server/tuner/import/text/shell_variables.h"

namespace meshwright {

// Returns true if a text matches a pattern of a shell ("7b*"). nullopt: the pattern has so many
// stars that the answer could take for ever.
std::optional<bool> MatchesPattern(const std::string& text, const std::string& pattern);

// Returns the truth of a condition of `if` that compares texts and numbers ("[ $A -eq 1 ]", "[[ -n
// "$B" ]] && ..."). A variable without a value is empty for -n and -z, as in a shell without it.
// Returns nullopt if it depends on files, on commands or on such a variable otherwise.
std::optional<bool> ShellCondition(std::span<const ShellToken> tokens,
                                   const ShellVariables& variables);

}  // namespace meshwright
