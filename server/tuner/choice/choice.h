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
inline constexpr double kMaxTieRatio = 1.05;

// The plans that a search keeps for the choice take at most so many times as long as the fastest.
inline constexpr double kKeptRatio = 1.10;

// A plan of a question, of which one is to be launched. The referents outlive it.
struct Alternative {
  const ParallelPlan& plan;
  const Estimate& estimate;
  const TimeUncertainty& uncertainty;
  int sequence_length;
  bool changes_settings = false;  // of the framework
};

// Why the first plan of a ranking is first.
enum class ChoiceReason {
  kCheapest,  // it is the reference, and nothing that is tied with it is preferred
  // The others are reasons why a plan is preferred that is tied with the reference.
  kSurerToFit,
  kBetterFounded,
  kPlainer,
  kUsualSettings,
  kNearerToOwn,
  kPublished,
  kMoreUsual,
};

// Plans that win a tie. They need not be among the alternatives.
struct KnownPlans {
  std::optional<ParallelPlan> own = {};     // what the user runs
  std::optional<ParallelPlan> recipe = {};  // what the framework has published
};

struct Choice {
  // Indices of the alternatives in the order in which they should be launched (docs/choice.md).
  // Equal alternatives keep their order.
  std::vector<std::size_t> order = {};
  std::size_t cheapest = 0;  // index of the plan with the least expected cost
  // Index of the plan with which others are tied: the cheapest one, or one to which that yields
  // because it has fewer features that hardly any measured run has confirmed.
  std::size_t reference = 0;
  std::size_t tied_count = 0;  // how many of `order`, from the start, are tied with the reference
  ChoiceReason reason = ChoiceReason::kCheapest;
};

// Ranks the alternatives.
Choice RankChoices(std::span<const Alternative> alternatives, const ChoiceLimits& limits,
                   const KnownPlans& known = {});

}  // namespace meshwright
