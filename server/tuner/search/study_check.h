#pragma once

#include <vector>

#include "search_space/base/status.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Plans that an answer may have.
inline constexpr int kMaxPlanCount = 1000;

// Returns everything that is wrong with what a request says of its search, its question and its
// history apart (CheckQuestion, ResolveRuns): limits, unknown words, and what goes with what.
// Fields are named as in the contract.
std::vector<FieldViolation> Validate(const StudyRequest& request);

}  // namespace meshwright
