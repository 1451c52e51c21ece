#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/search/exhaustive.h"

namespace meshwright {

// Shares of a device's memory that the points of a front leave free.
inline constexpr double kFreeMemoryLevels[] = {0, 0.1, 0.2, 0.3};

struct PointFound {
  std::optional<RankedPlan> best = {};     // absent: none fits
  std::vector<std::string> warnings = {};  // from the vendor's model
  // Set if the vendor's model gave no answer and the request allows that; no plan was searched for.
  std::optional<CostModelSource> fallback = {};
};

// The memory that a point's plan may use.
struct MemoryLimits {
  double free_ratio = 0;  // share of each device's memory that it leaves free, by the estimate
  // It fits with at least this probability, if any plan that leaves so much does. Vendors' models
  // give no probabilities: theirs is not limited.
  double fit_probability = 0;
};

// Returns the best plan within the limits. Its estimate states the full memory. A vendor's model is
// opened for the smaller memory, so that its own verdicts apply to that. Under a `fallback` the
// built-in model answers, and the plan is marked. Points of two models cannot be compared, so a
// point is never answered partly by another model than the requested one. Returns CANCELLED or
// DEADLINE_EXCEEDED if the search was cut; FAILED_PRECONDITION, COST_MODEL_NO_ESTIMATE, if the
// model estimates none of the plans that fit; RESOURCE_EXHAUSTED, EVALUATION_LIMIT, if it estimated
// none up to its limit; other errors are the model's.
absl::StatusOr<PointFound> BestWithin(const PreparedQuestion& question, const MemoryLimits& limits,
                                      const SearchOptions& options, const StudyControl& control,
                                      const std::optional<CostModelSource>& fallback);

// Adds the front of step time and free memory to an answer whose plans are ranked. Searches once
// for each level that no faster plan leaves free, until nothing fits. Levels that could not be
// searched to the end are left out with a warning that says why. `fallback` is that of the answer.
void AddParetoFront(const PreparedQuestion& question, const SearchOptions& options,
                    const StudyControl& control, const std::optional<CostModelSource>& fallback,
                    StudyResult& result);

// Returns the front of all `points`: the fastest first; each further one leaves more memory free.
std::vector<ParetoPoint> FrontOf(std::vector<ParetoPoint> points);

}  // namespace meshwright
