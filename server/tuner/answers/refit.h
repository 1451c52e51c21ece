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

// Constants of a framework's profile that make the estimate of one run what was measured of it.
struct Refit {
  std::vector<FrameworkFactRequest> facts =
      {};  // all of the run's workload, refitted ones included
  Estimate before = {};
  Estimate after = {};
};

// Finds the value of each named fact: of one that costs time by the run's step time, of one that
// costs memory by its peak memory (allocated bytes of the busiest device). INVALID_ARGUMENT names
// each fact that cannot be refitted: not one of the constants, its figure not measured, a second
// one for the same figure, or no value of it gives what was measured.
absl::StatusOr<Refit> RefitFramework(const HistoryRow& run, const std::vector<std::string>& facts,
                                     const Knowledge& knowledge);

}  // namespace meshwright
