#pragma once

#include <optional>
#include <vector>

#include "pruner/rules/recompute.h"
#include "search_space/base/units.h"

namespace meshwright {

// Keeps the best plans so far that differ in more than the micro-batch and offload, and the one
// that comes nearest to fitting among those that do not. A tie goes to the plan that is first in
// the canonical order, so that the result does not depend on the order of the offers.
class BestPlans {
 public:
  explicit BestPlans(std::size_t limit) : limit_(limit) {}

  void Offer(const RecomputeChoice& choice);
  void OfferNearest(const OversizedPlan& plan);
  void Merge(const BestPlans& other);

  // Returns the time above which a further plan cannot be kept.
  [[nodiscard]] std::optional<Seconds> SlowestUseful() const;

  [[nodiscard]] const std::vector<RecomputeChoice>& best() const { return best_; }  // best first
  [[nodiscard]] const std::optional<OversizedPlan>& nearest() const { return nearest_; }

 private:
  std::size_t limit_;
  std::vector<RecomputeChoice> best_;
  std::optional<OversizedPlan> nearest_;
};

}  // namespace meshwright
