#pragma once

#include <cstddef>
#include <vector>

#include "search_space/base/status.h"

namespace meshwright {

// The number of wrong fields that a status lists. It counts the others, so that an input with a
// hundred thousand mistakes has an answer that a caller can receive and a person can read.
inline constexpr std::size_t kMaxListedFields = 20;

// Returns how many fields are wrong: those in the list, and those that its last entry counts.
std::size_t CountFields(const std::vector<FieldViolation>& violations);

// Returns the first violations of the list. If there are more than `count`, a last one without a
// field counts the others: "280 more invalid fields".
std::vector<FieldViolation> FirstFields(const std::vector<FieldViolation>& violations,
                                        std::size_t count);

}  // namespace meshwright
