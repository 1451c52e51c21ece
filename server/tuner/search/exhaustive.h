#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/problem/estimator_problem.h"
#include "pruner/pruner.h"
#include "pruner/rules/recompute.h"
#include "search_space/space/space.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"

namespace meshwright {

// What a search is bound by.
struct SearchOptions {
  std::size_t plan_count = 5;
  std::vector<std::string> disabled_rules = {};
  // Asked every few dozen groups of plans, from every worker.
  std::function<std::optional<StopCause>()> stop = {};
  std::function<void(const Progress&)> on_progress = {};  // called on the caller's thread
  bool first_fit_is_enough = false;
  int worker_count = 0;      // 0: one for each core. Any number gives the same answer.
  bool times_rules = false;  // each prune rule's hooks, for SearchFound::rules; costs time itself
};

// Plans that are simulated before the space is walked; the walk counts them where it meets them.
inline constexpr std::size_t kSeedCount = 16;

struct SearchFound {
  // At most plan_count, best first; no two differ in the micro-batch and offload only.
  std::vector<RecomputeChoice> best = {};
  std::optional<OversizedPlan> nearest = {};  // needs least memory of those that do not fit
  SearchSummary summary = {};
  std::vector<RuleTally> rules = {};  // of the search by the built-in model
};

// Visits the whole space, cutting what the rules reject; what is left is evaluated plan by plan, so
// the answer is the best of the space by the model. Ties go to the plan that is first in the
// canonical order of plans. The part of the space below one pair of tensor and context parallelism
// is one worker's; what a worker may cut because better plans are known does not depend on the
// others, so neither the answer nor its counts depend on their number.
SearchFound SearchExhaustively(const SearchSpace& space, const EstimatorProblem& problem,
                               const Calibration& calibration, const SearchOptions& options);

}  // namespace meshwright
