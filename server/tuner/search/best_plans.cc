#include "server/tuner/search/best_plans.h"

#include <algorithm>
#include <tuple>

#include "pruner/rules/recompute.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace {

bool IsBetter(const RecomputeChoice& a, const RecomputeChoice& b) {
  return std::tie(a.estimate.step_time, a.plan) < std::tie(b.estimate.step_time, b.plan);
}

bool NeedsLess(const OversizedPlan& a, const OversizedPlan& b) {
  return std::tie(a.reserved_memory, a.plan) < std::tie(b.reserved_memory, b.plan);
}

// Returns true if users regard two plans as the same choice: they decide last on the micro-batch,
// on what is offloaded to the host and on which weights are not sharded.
bool AreOneChoice(const ParallelPlan& a, const ParallelPlan& b) {
  if (a.tensor_parallel != b.tensor_parallel || a.pipeline_parallel != b.pipeline_parallel) {
    return false;  // true of most plans; avoids the copy
  }
  ParallelPlan same = a;
  same.micro_batch_size = b.micro_batch_size;
  same.optimizer_offload_ratio = b.optimizer_offload_ratio;
  same.activation_offload_ratio = b.activation_offload_ratio;
  same.whole_weights_ratio = b.whole_weights_ratio;
  return same == b;
}

}  // namespace

void BestPlans::Offer(const RecomputeChoice& choice) {
  if (best_.size() >= limit_ && !IsBetter(choice, best_.back())) return;
  const auto alike = std::find_if(best_.begin(), best_.end(), [&](const RecomputeChoice& kept) {
    return AreOneChoice(kept.plan, choice.plan);
  });
  if (alike != best_.end()) {
    if (!IsBetter(choice, *alike)) return;
    best_.erase(alike);
  }
  best_.insert(std::lower_bound(best_.begin(), best_.end(), choice, IsBetter), choice);
  if (best_.size() > limit_) best_.pop_back();
}

void BestPlans::OfferNearest(const OversizedPlan& plan) {
  if (!nearest_.has_value() || NeedsLess(plan, *nearest_)) nearest_ = plan;
}

void BestPlans::Merge(const BestPlans& other) {
  for (const RecomputeChoice& choice : other.best_) Offer(choice);
  if (other.nearest_.has_value()) OfferNearest(*other.nearest_);
}

std::optional<Seconds> BestPlans::SlowestUseful() const {
  if (best_.size() < limit_) return std::nullopt;
  return best_.back().estimate.step_time;
}

}  // namespace meshwright
