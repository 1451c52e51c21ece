#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "estimator/learning/uncertainty.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// A plan of a question, of which one is to be launched. The referents outlive it.
struct Alternative {
  const ParallelPlan& plan;
  const Estimate& estimate;
  const TimeUncertainty& uncertainty;
};

struct ChoiceOptions {
  // Plans that are less likely to fit leave while one that is as likely exists.
  double min_fit_probability = 0.95;
  // Two plans are tied if neither is faster with at least this probability.
  double tie_probability = 0.7;
  std::optional<ParallelPlan> own = {};  // the user's
};

// Returns the indices of the alternatives in the order in which they should be launched
// (docs/choice.md). Equal alternatives keep their order.
std::vector<std::size_t> RankChoices(std::span<const Alternative> alternatives,
                                     const ChoiceOptions& options);

}  // namespace meshwright
