#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "search_space/base/status.h"

namespace meshwright {

// "study-" and twelve hexadecimal digits; unlike any other with overwhelming probability.
std::string NewStudyId();

// Says what is wrong with an id that a client chose: it must match [a-z][a-z0-9-]{2,62}. Kubernetes
// names jobs by it, and leaves room for 40 characters.
std::optional<FieldViolation> CheckStudyId(std::string_view id, std::string_view launcher);

}  // namespace meshwright
