#pragma once

#include <cstdint>
#include <optional>

#include "estimator/model/analytic_model.h"
#include "pruner/pruner.h"
#include "pruner/rules/history.h"
#include "pruner/rules/recompute.h"
#include "search_space/base/units.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// What the plans that a judge knows say of those that are still to come.
struct JudgeView {
  // Time by the built-in model above which a plan is of no use; absent: any time is of use.
  std::optional<Seconds> slowest_useful = {};
  // Nothing fits so far: a prefix is kept that may hold a plan which needs less memory than
  // `least_missed`, or any plan if that is absent.
  bool seeks_nearest = false;
  std::optional<Bytes> least_missed = {};
};

// Judges the plans that a walk leaves: by the built-in model, or by a vendor's. Called by the
// walker, from its thread.
class PlanJudge {
 public:
  PlanJudge() = default;
  PlanJudge(const PlanJudge&) = delete;
  PlanJudge& operator=(const PlanJudge&) = delete;
  virtual ~PlanJudge() = default;

  [[nodiscard]] virtual JudgeView View() const = 0;
  // Takes what is left of the recomputation choices of one plan; `is_by_hand`: the plan is one that
  // WalkGrid::kByHandWithoutOffload has.
  virtual void Take(const NarrowedRecompute& found, bool is_by_hand) = 0;
  // Is told of each node of the walk before it is looked at, and of the number of plans that were
  // decided since the last one. Returns whether the walk goes on.
  virtual bool GoesOn(int depth, std::int64_t decided_count) = 0;
};

// The part of the space that a walk looks at.
enum class WalkGrid {
  kAll,
  kByHand,  // what plans by hand have: small micro-batches, even stages, no exotic sharding
  kByHandWithoutOffload,
};

// Who prices the plans.
enum class Pricing {
  kSimulation,
  kClosedForm,
  // The judge. The built-in model says what fits, whether the rule `memory` is on or not; and since
  // its times count for nothing, a plan that fits without recomputation makes every larger share of
  // offload of no use.
  kJudge,
};

struct WalkOptions {
  WalkGrid grid = WalkGrid::kAll;
  Pricing pricing = Pricing::kSimulation;
};

// Walks the space, cuts what the rules reject, narrows the recomputation choices of what is left,
// and hands them to a judge. The space and the model outlive it.
class SpaceWalker {
 public:
  SpaceWalker(const SearchSpace& space, AnalyticModel& model);

  // Walks the plans that share the first `depth` dimensions of `prefix`. Returns whether it came to
  // the end.
  bool Walk(const ParallelPlan& prefix, int depth, const WalkOptions& options, Pruning& pruning,
            PlanJudge& judge);

 private:
  struct Step;

  bool IsCut(const ParallelPlan& prefix, int depth, Step& step);
  void TryWithoutOffload(ParallelPlan plan, Step& step);
  void TryOffload(const ParallelPlan& group, bool is_by_hand, Step& step);
  void TryActivationOffload(const ParallelPlan& group, bool is_by_hand, Step& step);
  bool TryRecomputation(const ParallelPlan& plan, bool is_by_hand, Step& step);
  std::int64_t CountPrunedByHistory(const ParallelPlan& plan, const NarrowedRecompute& narrowed);

  const SearchSpace& space_;
  AnalyticModel& model_;
  FailedPlans failed_;
  bool offload_costs_time_;
};

// Depth of the micro-batch's nodes: above them there are too few nodes for a look at the clock.
inline constexpr int kMicroBatchDepth = static_cast<int>(Dimension::kMicroBatchSize) + 1;

}  // namespace meshwright
