#include <algorithm>

#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"
#include "server/tuner/search/legal_plans.h"
#include "server/tuner/search/strategies.h"
#include "server/tuner/search/strategy.h"

namespace meshwright {
namespace {

constexpr std::size_t kFewValues = 8;  // a dimension with at most this many values is tried in full

// Returns the values of a dimension that are worth trying from `here`: all of them if there are
// few, otherwise those at distances 1, 2, 4, 8 and so on.
std::vector<int> Probes(const std::vector<int>& values, int here) {
  std::vector<int> probes;
  const auto at = std::ranges::find(values, here) - values.begin();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto distance = static_cast<std::size_t>(std::abs(static_cast<std::ptrdiff_t>(i) - at));
    const bool is_power = (distance & (distance - 1)) == 0;
    if (distance > 0 && (is_power || values.size() <= kFewValues)) probes.push_back(values[i]);
  }
  return probes;
}

// Starts from a random plan and sets one dimension after the other to its best value until none of
// them changes any more; then starts again from another random plan. (AutoDDL searches this way.)
class CoordinateDescent final : public SearchStrategy {
 public:
  explicit CoordinateDescent(const StrategyInput& input)
      : plans_(input.space, input.problem, input.seed) {}

  std::optional<ParallelPlan> Ask() override {
    while (true) {
      while (next_ < candidates_.size()) {
        const PlanPath& candidate = candidates_[next_++];
        if (plans_.Take(candidate.plan)) return candidate.plan;
      }
      TakeBest();
      candidates_.clear();
      next_ = 0;
      if (here_.has_value() && unchanged_ < kDimensionCount) {
        AddCandidates();
        continue;
      }
      here_.reset();
      std::optional<PlanPath> beginning = plans_.Draw();
      if (!beginning.has_value()) return std::nullopt;
      candidates_.push_back(*std::move(beginning));
    }
  }

  void Tell(const Observation& observation) override { plans_.Note(observation); }

 private:
  // Moves to the best candidate that was tried, if it is better.
  void TakeBest() {
    for (const PlanPath& candidate : candidates_) {
      const std::optional<PlanCost> cost = plans_.CostOf(candidate.plan);
      if (!cost.has_value() || (here_.has_value() && *cost >= cost_)) continue;
      here_ = candidate;
      cost_ = *cost;
      unchanged_ = 0;
    }
  }

  void AddCandidates() {
    const auto dimension = static_cast<Dimension>(next_dimension_);
    next_dimension_ = (next_dimension_ + 1) % kDimensionCount;
    ++unchanged_;
    const int value = here_->values[static_cast<std::size_t>(dimension)];
    for (const int probe : Probes(plans_.Values(*here_, dimension), value)) {
      std::optional<PlanPath> moved = plans_.Moved(*here_, dimension, probe);
      if (moved.has_value()) candidates_.push_back(*std::move(moved));
    }
  }

  LegalPlans plans_;
  std::optional<PlanPath> here_;
  PlanCost cost_;  // cost of here_
  std::vector<PlanPath> candidates_;
  std::size_t next_ = 0;  // index into candidates_
  int next_dimension_ = 0;
  int unchanged_ = 0;  // dimensions tried since here_ changed
};

}  // namespace

std::unique_ptr<SearchStrategy> MakeCoordinateDescent(const StrategyInput& input) {
  return std::make_unique<CoordinateDescent>(input);
}

}  // namespace meshwright
