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

// Bounds that the plans known to a judge set for the plans still to come.
struct JudgeView {
  // Time by the built-in model above which a plan is of no use; absent: no limit.
  std::optional<Seconds> slowest_useful = {};
  // True if nothing fits so far. A prefix is then kept if it may hold a plan that needs less memory
  // than `least_missed`, or any plan if that is absent.
  bool seeks_nearest = false;
  std::optional<Bytes> least_missed = {};
};

// Judges the plans that a walk leaves, by the built-in or by a vendor's model. The walker calls it
// from its own thread.
class PlanJudge {
 public:
  PlanJudge() = default;
  PlanJudge(const PlanJudge&) = delete;
  PlanJudge& operator=(const PlanJudge&) = delete;
  virtual ~PlanJudge() = default;

  [[nodiscard]] virtual JudgeView View() const = 0;
  // Takes the remaining recomputation choices of one plan. `is_by_hand` is true if the plan belongs
  // to WalkGrid::kByHandWithoutOffload.
  virtual void Take(const NarrowedRecompute& found, bool is_by_hand) = 0;
  // Receives each node of the walk before it is visited, and the number of plans decided since the
  // last call. Returns true if the walk should go on.
  virtual bool GoesOn(int depth, std::int64_t decided_count) = 0;
};

// The part of the space that a walk visits.
enum class WalkGrid {
  kAll,
  kByHand,  // plans as set by hand: small micro-batches, even stages, no exotic sharding
  kByHandWithoutOffload,
};

// The component that prices the plans.
enum class Pricing {
  kSimulation,
  kClosedForm,
  // The judge prices them. The built-in model decides what fits, even if the rule `memory` is off.
  // Its times do not count, so once a plan fits without recomputation, no larger share of offload
  // is tried.
  kJudge,
};

struct WalkOptions {
  WalkGrid grid = WalkGrid::kAll;
  Pricing pricing = Pricing::kSimulation;
};

// Walks the space, prunes what the rules reject, narrows the recomputation choices of the rest, and
// passes them to a judge. The space and the model outlive it.
class SpaceWalker {
 public:
  SpaceWalker(const SearchSpace& space, AnalyticModel& model);

  // Walks the plans that share the first `depth` dimensions of `prefix`. Returns true if it reached
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

// Depth of the micro-batch's nodes. The clock is not checked above it, since there are few nodes.
inline constexpr int kMicroBatchDepth = static_cast<int>(Dimension::kMicroBatchSize) + 1;

}  // namespace meshwright
