#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// Returns the error of a search that was stopped before it had found a plan: CANCELLED,
// DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED with reason EVALUATION_LIMIT. `seen` says what it has
// seen. Returns OK if the search was not stopped.
absl::Status StopStatus(StopCause cause, std::string_view seen);

// Returns the error of work that needs a complete search: CANCELLED, or DEADLINE_EXCEEDED: "the
// deadline is too short `for_what`". Returns OK if neither ended the search.
absl::Status CutStatus(StopCause cause, std::string_view for_what);

}  // namespace meshwright
