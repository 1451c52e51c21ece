#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "estimator/learning/calibration.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/exhaustive.h"

namespace meshwright {

// Default limit on the plans that a search asks a vendor's model about.
inline constexpr int kDefaultModelLimit = 200'000;

// Plans with one verdict that a vendor's model did not estimate.
struct Unanswered {
  std::int64_t count = 0;
  std::string first_reason = {};
};

// A plan whose estimate is below the lower bound that the same model gave for it.
struct BrokenBound {
  ParallelPlan plan = {};
  Seconds bound = Seconds(0);
  Seconds step_time = Seconds(0);
};

struct ModelFound {
  SearchFound found = {};
  std::map<PlanVerdict, Unanswered> unanswered = {};  // by verdict, except kOk
  std::int64_t left_out_by_bounds = 0;           // plans; it is not proven that they are slower
  std::optional<BrokenBound> broken_bound = {};  // the first one; no bound is asked for after it
  // Reason why the search ended early: the model can no longer be asked.
  absl::Status failure = absl::OkStatus();
};

// Returns the plan in the form in which vendors' models are asked about it: its split of layers is
// stated only if it is uneven. A plan that states none has its framework's.
ParallelPlan WithUnevenSplit(const ParallelPlan& plan, const Problem& problem);

// Walks the space, prunes what the rules that need no time reject and what does not fit by the
// built-in memory model, asks `model` about the rest in large batches, and keeps the best plans by
// its times. The rule `dominance` reduces the recomputation choices of a plan to those that can be
// best (NarrowRecompute). The plans that the built-in model ranks highest are asked about first,
// then those that a person would set by hand, so that a search that is cut short has seen them. If
// the model has lower bounds, the rule `bound` leaves out plans whose bound is slower than the
// plans already kept. The result is the same if no estimate is below its bound. Every estimated
// plan is compared with its own bound, and the built-in model's favourites are compared before any
// plan is left out. After the first violation no bounds are used, and a search that had left plans
// out by them is not complete.
ModelFound SearchByModel(const Problem& problem, const Calibration& calibration, PlanModel& model,
                         const SearchOptions& options, int limit);

}  // namespace meshwright
