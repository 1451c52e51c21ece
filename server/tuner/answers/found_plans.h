#pragma once

#include <vector>

#include "absl/status/status.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// Returns all plans of an answer: those that are listed, the model's optimum and the baseline.
std::vector<RankedPlan*> PlansOf(StudyResult& result);

// Returns INTERNAL if a plan that a search has found is not legal or not possible.
absl::Status CheckFound(const RankedPlan& found, const Problem& problem);

}  // namespace meshwright
