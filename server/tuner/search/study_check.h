#pragma once

#include <vector>

#include "search_space/base/status.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Largest number of plans in an answer.
inline constexpr int kMaxPlanCount = 1000;

// Returns everything that is wrong with a request's search options: limits, unknown words and
// options that exclude each other. The question and the history are checked elsewhere
// (CheckQuestion, ResolveRuns). Fields are named as in the contract.
std::vector<FieldViolation> Validate(const StudyRequest& request);

}  // namespace meshwright
