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
#include "search_space/spec/plan.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/search/best_plans.h"

namespace meshwright {

// Limits and callbacks of a search.
struct SearchOptions {
  std::size_t plan_count = 5;
  // The best list holds only the better one of two plans that are alike. Besides it, the search
  // keeps all plans that take at most `close_ratio` times as long as the best one.
  bool (*are_alike)(const ParallelPlan&, const ParallelPlan&) = &AreOneChoice;
  double close_ratio = 1;
  std::vector<std::string> disabled_rules = {};
  // Called every few dozen groups of plans, by every worker.
  std::function<std::optional<StopCause>()> stop = {};
  std::function<void(const Progress&)> on_progress = {};  // called on the caller's thread
  bool first_fit_is_enough = false;
  int worker_count = 0;  // 0: one per core; the answer is the same for any number
  // Times each rule's hooks for SearchFound::rules; this costs time itself.
  bool times_rules = false;
};

// Number of plans that are simulated before the space is walked; the walk counts them when it
// reaches them.
inline constexpr std::size_t kSeedCount = 16;

struct SearchFound {
  std::vector<RecomputeChoice> best = {};  // at most plan_count plans, best first
  // The plans that take at most close_ratio times as long as the best one, best first, and
  // whether there were more than are kept.
  std::vector<RecomputeChoice> close = {};
  bool close_were_cut = false;
  std::optional<OversizedPlan> nearest = {};  // plan that does not fit but needs the least memory
  SearchSummary summary = {};
  std::vector<RuleTally> rules = {};  // filled by searches by the built-in model
};

// Visits the whole space, prunes what the rules reject and evaluates the rest plan by plan, so the
// answer is the best plan of the space by the model. A tie goes to the plan that is first in the
// canonical order of plans. Each pair of tensor and context parallelism is one task, and one worker
// walks the part of the space below it. What a worker may prune because better plans are known does
// not depend on the other workers, so neither the answer nor its counts depend on their number.
SearchFound SearchExhaustively(const SearchSpace& space, const EstimatorProblem& problem,
                               const Calibration& calibration, const SearchOptions& options);

}  // namespace meshwright
