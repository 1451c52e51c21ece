#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/workload.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Constants of a framework's profile for which the estimate of one run equals its measurement.
struct Refit {
  std::vector<FrameworkFactRequest> facts =
      {};  // all facts of the run's workload, including the refitted ones
  Estimate before = {};
  Estimate after = {};
};

// Finds the value of each named fact. One that costs time is fitted to the run's step time, one
// that costs memory to its peak memory (allocated bytes of the busiest device). Returns
// INVALID_ARGUMENT with each fact that cannot be refitted: it is not one of the constants, its
// figure was not measured, another fact is fitted to the same figure, or no value of it gives the
// measured figure.
absl::StatusOr<Refit> RefitFramework(const HistoryRow& run, const std::vector<std::string>& facts,
                                     const Knowledge& knowledge);

}  // namespace meshwright
