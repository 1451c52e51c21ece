#pragma once

#include <span>
#include <string>
#include <vector>

#include "search_space/spec/estimate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/trials/trial_chooser.h"

namespace meshwright {

// Gives the candidates of a study with trials the times of the vendor's model that the request
// names; of none nothing changes. A plan that the model does not estimate keeps the built-in
// model's, marked as such. What the model warns of joins `warnings`. FAILED_PRECONDITION,
// COST_MODEL_NO_ESTIMATE: it estimates none of them, and the request allows no fallback; what it
// fails to open with.
absl::Status EstimateByAskedModel(const StudyRequest& request, const Problem& problem,
                                  const StudyControl& control, std::span<RankedPlan* const> plans,
                                  std::vector<std::string>& warnings);

// Whether a vendor's model made the estimate's times.
bool IsByVendor(const Estimate& estimate);

// A candidate with a vendor's times, which no run of ours calibrates, by what the trials have shown
// of plans like it: time, interval, breakdown, and what follows from them. Its memory is that of
// `known`, the built-in model's after the trials.
RankedPlan AtExpectation(RankedPlan known, const Estimate& vendors, const Expectation& expected);

}  // namespace meshwright
