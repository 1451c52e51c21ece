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
// names. Does nothing if it names none. A plan that the model does not estimate keeps the built-in
// model's times and is marked. The model's warnings join `warnings`. Returns FAILED_PRECONDITION,
// COST_MODEL_NO_ESTIMATE, if it estimates none of them and the request allows no fallback, or the
// error that the model failed to open with.
absl::Status EstimateByAskedModel(const StudyRequest& request, const Problem& problem,
                                  const StudyControl& control, std::span<RankedPlan* const> plans,
                                  std::vector<std::string>& warnings);

// Returns true if the estimate's times are a vendor's model's.
bool IsByVendor(const Estimate& estimate);

// Returns a candidate with a vendor's times, corrected by the trials of similar plans: its time,
// interval, breakdown and everything derived from them. Our runs do not calibrate a vendor's times.
// Its memory is that of `known`, the built-in model's after the trials.
RankedPlan AtExpectation(RankedPlan known, const Estimate& vendors, const Expectation& expected);

}  // namespace meshwright
