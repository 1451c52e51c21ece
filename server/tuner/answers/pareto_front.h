#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "estimator/learning/calibration.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/exhaustive.h"

namespace meshwright {

// The shares of a device's memory that the points of a front leave free.
inline constexpr double kFreeMemoryLevels[] = {0, 0.1, 0.2, 0.3};

// What the points of a front or of a sweep are searched with. The referents outlive it.
struct PointSearch {
  const StudyRequest&
      request;  // its model, where it asks for one, and the limit of its evaluations
  const Calibration& calibration;
  const SearchOptions& options;
  const StudyControl& control;
  // Why the built-in model stands in for the one that is asked for; marked on every plan.
  std::optional<CostModelSource> fallback = {};
};

struct PointFound {
  std::optional<RankedPlan> best = {};     // nothing when none fits
  std::vector<std::string> warnings = {};  // of the vendor's model
  // The vendor's model gave no answer, which the request allows: no plan was looked for.
  std::optional<CostModelSource> fallback = {};
};

// The best plan where only 1 - `free_ratio` of each device's memory may be used, with the memory
// that there is in its estimate. A vendor's model is opened for the smaller memory, so that its own
// verdicts hold for that. Points of two models cannot be compared, so none is answered in part by
// another than the one that is asked for. CANCELLED or DEADLINE_EXCEEDED when the
// search was cut; FAILED_PRECONDITION, COST_MODEL_NO_ESTIMATE, when the model estimates none of the
// plans that fit; RESOURCE_EXHAUSTED, EVALUATION_LIMIT, when it estimated none up to its limit;
// what the model fails with.
absl::StatusOr<PointFound> BestWithin(const Problem& problem, double free_ratio,
                                      const PointSearch& by);

// Adds the front of step time and free memory to an answer whose plans are ranked: a search for
// each level that no faster plan leaves, until nothing fits. Levels that could not be searched to
// their end are left out with a warning that says why.
void AddParetoFront(const Problem& problem, const PointSearch& by, StudyResult& result);

// The front of all `points`: the fastest first, each of the others leaves more memory free.
std::vector<ParetoPoint> FrontOf(std::vector<ParetoPoint> points);

}  // namespace meshwright
