#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "pruner/rules/recompute.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Returns true if users regard two plans as the same choice: they decide last on the micro-batch,
// on what is offloaded to the host and on which weights are not sharded.
bool AreOneChoice(const ParallelPlan& a, const ParallelPlan& b);

// Returns true if two plans follow the same idea: they have the same tensor and pipeline
// parallelism, and a device has as many tokens of a micro-batch, whether context parallelism or a
// smaller micro-batch splits them.
bool AreOneKind(const ParallelPlan& a, const ParallelPlan& b);

// The plans that a search keeps.
struct KeepOptions {
  std::size_t plan_count = 5;  // number of the best plans, no two of which are alike
  bool (*are_alike)(const ParallelPlan&, const ParallelPlan&) = &AreOneChoice;
  // Also keeps up to `close_limit` plans that take at most this many times as long as the best one,
  // alike or not; 1 keeps none.
  double close_ratio = 1;
  std::size_t close_limit = 10'000;
};

// Keeps the best plans so far, and the one that comes nearest to fitting among those that do not. A
// tie goes to the plan that is first in the canonical order, so that the result does not depend on
// the order of the offers.
class BestPlans {
 public:
  explicit BestPlans(const KeepOptions& options) : options_(options) {}

  void Offer(const RecomputeChoice& choice);
  void OfferNearest(const OversizedPlan& plan);
  void Merge(const BestPlans& other);
  // Takes over only the best plans of `other`, which lowers SlowestUseful, not those close to them.
  void MergeBest(const BestPlans& other);

  // Returns the time above which a further plan cannot be kept.
  [[nodiscard]] std::optional<Seconds> SlowestUseful() const;

  [[nodiscard]] const std::vector<RecomputeChoice>& best() const { return best_; }  // best first
  // Returns the plans that are close to the best one, best first, and whether there were too many.
  [[nodiscard]] std::vector<RecomputeChoice> CloseToBest() const;
  [[nodiscard]] bool close_were_cut() const { return close_were_cut_; }
  [[nodiscard]] const std::optional<OversizedPlan>& nearest() const { return nearest_; }

 private:
  struct IsFaster {
    bool operator()(const RecomputeChoice& a, const RecomputeChoice& b) const;
  };

  [[nodiscard]] Seconds SlowestClose() const;
  void OfferBest(const RecomputeChoice& choice);
  void OfferClose(const RecomputeChoice& choice);

  KeepOptions options_;
  std::vector<RecomputeChoice> best_;
  std::set<RecomputeChoice, IsFaster> close_;
  bool close_were_cut_ = false;
  std::optional<OversizedPlan> nearest_;
};

}  // namespace meshwright
