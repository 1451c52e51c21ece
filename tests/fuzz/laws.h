#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "search_space/base/status.h"

namespace meshwright {

// The laws that hold for every input of a parser. A crash or a hang needs no law.

// Says which law an input breaks, for people; nullopt if it breaks none.
using BrokenLaw = std::optional<std::string>;

// Every error is valid text of bounded length, also if it quotes the input.
BrokenLaw TextLaw(std::string_view text);
BrokenLaw ViolationsLaw(std::span<const FieldViolation> violations);
BrokenLaw ErrorLaw(const absl::Status& status);

// Returns the first law that is broken.
BrokenLaw First(std::initializer_list<BrokenLaw> laws);

// Returns `law` as broken if it does not hold.
BrokenLaw Holds(bool holds, std::string_view law);

}  // namespace meshwright
