#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "pruner/pruner.h"
#include "server/tuner/study.h"

namespace meshwright {

// What a search is bound by.
struct SearchOptions {
  std::size_t plan_count = 5;
  std::vector<std::string> disabled_rules = {};
  std::function<std::optional<StopCause>()> stop = {};  // asked every few hundred plans
  std::function<void(const Progress&)> on_progress = {};
  bool first_fit_is_enough = false;
};

struct SearchFound {
  std::vector<RecomputeChoice> best = {};     // at most plan_count, best first
  std::optional<OversizedPlan> nearest = {};  // needs least memory of those that do not fit
  SearchSummary summary = {};
};

// Visits the whole space, cutting what the rules reject; what is left is evaluated plan by plan, so
// the answer is the best of the space by the model. Ties go to the plan that is first in the
// canonical order of plans.
SearchFound SearchExhaustively(const SearchSpace& space, AnalyticModel& model,
                               const SearchOptions& options);

}  // namespace meshwright
