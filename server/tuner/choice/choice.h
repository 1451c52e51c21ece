#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "estimator/learning/uncertainty.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// A tie never costs more than this, by the model: step times that differ by less than 5 % are about
// the least that pairs of measured plans tell apart (docs/choice.md).
inline constexpr double kMostTieRatio = 1.05;

// A plan of a question, of which one is to be launched. The referents outlive it.
struct Alternative {
  const ParallelPlan& plan;
  const Estimate& estimate;
  const TimeUncertainty& uncertainty;
};

// Why the first plan of a ranking is first.
enum class ChoiceReason {
  kCheapest,  // it costs least, and nothing that is tied with it is preferred
  // It is tied with the cheapest one, and
  kSurerToFit,
  kBetterFounded,
  kPlainer,
  kNearerToOwn,
};

struct Choice {
  // Indices of the alternatives in the order in which they should be launched (docs/choice.md).
  // Equal alternatives keep their order.
  std::vector<std::size_t> order = {};
  std::size_t cheapest = 0;    // index of the plan with the least expected cost
  std::size_t tied_count = 0;  // how many of `order`, from its begin, are tied with the cheapest
  ChoiceReason reason = ChoiceReason::kCheapest;
};

// Ranks the alternatives. `own` is the user's own plan, which need not be one of them.
Choice RankChoices(std::span<const Alternative> alternatives, const ChoiceLimits& limits,
                   const std::optional<ParallelPlan>& own = {});

}  // namespace meshwright
