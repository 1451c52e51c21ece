#include "server/tuner/search/best_plans.h"

#include <algorithm>
#include <tuple>

#include "pruner/rules/recompute.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace {

bool NeedsLess(const OversizedPlan& a, const OversizedPlan& b) {
  return std::tie(a.reserved_memory, a.plan) < std::tie(b.reserved_memory, b.plan);
}

}  // namespace

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

bool AreOneKind(const ParallelPlan& a, const ParallelPlan& b) {
  return a.tensor_parallel == b.tensor_parallel && a.pipeline_parallel == b.pipeline_parallel &&
         a.micro_batch_size * b.context_parallel == b.micro_batch_size * a.context_parallel;
}

bool BestPlans::IsFaster::operator()(const RecomputeChoice& a, const RecomputeChoice& b) const {
  return std::tie(a.estimate.step_time, a.plan) < std::tie(b.estimate.step_time, b.plan);
}

void BestPlans::Offer(const RecomputeChoice& choice) {
  OfferBest(choice);
  if (options_.close_ratio > 1) OfferClose(choice);
}

void BestPlans::OfferBest(const RecomputeChoice& choice) {
  const IsFaster is_faster;
  if (best_.size() >= options_.plan_count && !is_faster(choice, best_.back())) return;
  const auto alike = std::find_if(best_.begin(), best_.end(), [&](const RecomputeChoice& kept) {
    return options_.are_alike(kept.plan, choice.plan);
  });
  if (alike != best_.end()) {
    if (!is_faster(choice, *alike)) return;
    best_.erase(alike);
  }
  best_.insert(std::lower_bound(best_.begin(), best_.end(), choice, is_faster), choice);
  if (best_.size() > options_.plan_count) best_.pop_back();
}

Seconds BestPlans::SlowestClose() const {
  return best_.front().estimate.step_time * options_.close_ratio;
}

void BestPlans::OfferClose(const RecomputeChoice& choice) {
  if (choice.estimate.step_time > SlowestClose()) return;
  close_.insert(choice);
  while (std::prev(close_.end())->estimate.step_time > SlowestClose()) {
    close_.erase(std::prev(close_.end()));
  }
  if (close_.size() <= options_.close_limit) return;
  close_.erase(std::prev(close_.end()));
  close_were_cut_ = true;
}

void BestPlans::OfferNearest(const OversizedPlan& plan) {
  if (!nearest_.has_value() || NeedsLess(plan, *nearest_)) nearest_ = plan;
}

void BestPlans::Merge(const BestPlans& other) {
  MergeBest(other);
  for (const RecomputeChoice& choice : other.close_) OfferClose(choice);
  close_were_cut_ = close_were_cut_ || other.close_were_cut_;
}

void BestPlans::MergeBest(const BestPlans& other) {
  for (const RecomputeChoice& choice : other.best_) OfferBest(choice);
  if (other.nearest_.has_value()) OfferNearest(*other.nearest_);
}

std::optional<Seconds> BestPlans::SlowestUseful() const {
  if (best_.size() < options_.plan_count) return std::nullopt;
  const Seconds slowest = best_.back().estimate.step_time;
  if (options_.close_ratio <= 1) return slowest;
  const bool is_full = close_.size() >= options_.close_limit;
  return std::max(slowest, is_full ? std::prev(close_.end())->estimate.step_time : SlowestClose());
}

std::vector<RecomputeChoice> BestPlans::CloseToBest() const {
  std::vector<RecomputeChoice> close(close_.begin(), close_.end());
  if (best_.empty()) return close;
  std::erase_if(close, [&](const RecomputeChoice& choice) {
    return choice.estimate.step_time > SlowestClose();
  });
  return close;
}

}  // namespace meshwright
