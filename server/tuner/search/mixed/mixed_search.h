#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "estimator/learning/calibration.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/mixed/set_search.h"

namespace meshwright {

// The best plans that mix pools.
struct MixedFound {
  std::vector<SetFound> sets = {};   // of two pools or more
  std::vector<SetFound> equal = {};  // the same sets, only plans whose stages have equal degrees
  // The same sets, plans whose replicas differ. Empty if the framework runs none.
  std::vector<SetFound> replicas = {};
};

// Returns the set with the fastest plan, or null if no plan fits.
const SetFound* FastestOf(const std::vector<SetFound>& sets);
// Returns the fastest of all, or null if no plan fits.
const SetFound* FastestOf(const MixedFound& found);

// Searches every set of two pools or more of a problem that has several. A search that its limits
// or the caller end has the bound of what it left out.
MixedFound SearchMixed(const Problem& problem, const Calibration& calibration,
                       const SearchOptions& options, const SetLimits& limits = {});

}  // namespace meshwright
