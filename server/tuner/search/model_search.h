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

// Plans that a search by a vendor's model may ask for, unless it is told.
inline constexpr int kDefaultModelLimit = 200'000;

// What became of the plans that a vendor's model did not estimate.
struct Unanswered {
  std::int64_t count = 0;
  std::string first_reason = {};
};

// A plan whose estimate is below what the same model said it is not below.
struct BrokenBound {
  ParallelPlan plan = {};
  Seconds bound = Seconds(0);
  Seconds step_time = Seconds(0);
};

struct ModelFound {
  SearchFound found = {};
  std::map<PlanVerdict, Unanswered> unanswered = {};  // all verdicts but kOk
  std::int64_t left_out_by_bounds = 0;                // plans; nothing proves that they are slower
  std::optional<BrokenBound> broken_bound = {};       // the first; from then on none is asked for
  // Why it ended early; the model cannot be asked any more.
  absl::Status failure = absl::OkStatus();
};

// The plan as models are asked it: with the split of layers that its framework takes, where that is
// not even.
ParallelPlan AskedForm(const ParallelPlan& plan, const Problem& problem);

// Walks the space, cuts what the rules without a time reject and what does not fit by the built-in
// memory model, asks `model` about what is left in large batches, and keeps the best by its times.
// Of the recomputation of a plan the rule `dominance` leaves what can be best (NarrowRecompute).
// The plans that the built-in model likes best are asked first, then those that are set as by hand,
// so that a search that is cut has seen them. Where the model has lower bounds, the rule `bound`
// leaves out what they say is slower than the plans already kept: what is found is the same, if no
// estimate is below its bound. Every plan that is estimated is held against its own, the built-in
// model's favourites before any plan is left out; at the first that does not hold, bounds are over,
// and a search that had left plans out by them is not complete.
ModelFound SearchByModel(const Problem& problem, const Calibration& calibration, PlanModel& model,
                         const SearchOptions& options, int limit);

}  // namespace meshwright
