#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "search_space/base/status.h"

namespace meshwright {

// Returns "study-" and twelve hexadecimal digits, which are unique with overwhelming probability.
std::string NewStudyId();

// Checks an id that a client chose; it must match [a-z][a-z0-9-]{2,62}. Some launchers allow
// fewer characters. Returns nullopt if the id is valid.
std::optional<FieldViolation> CheckStudyId(std::string_view id, std::string_view launcher);

}  // namespace meshwright
