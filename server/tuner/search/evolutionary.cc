#include <algorithm>
#include <utility>

#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"
#include "server/tuner/search/legal_plans.h"
#include "server/tuner/search/strategies.h"
#include "server/tuner/search/strategy.h"

namespace meshwright {
namespace {

constexpr std::size_t kPopulation = 64;
constexpr int kTournament = 3;
constexpr int kMaxKnownChildren = 100;  // consecutive children that had been tried before
constexpr int kDrawEvery = 16;          // one plan in this many is random, to keep diversity
constexpr int kMaxStalePlans = 1'000;   // plans since the population found its best

struct Individual {
  PlanCost cost = {};
  PlanPath path = {};
};

// Keeps the best plans, crosses two of them dimension by dimension and mutates a random dimension
// of the child. The child replaces the worst plan if it is better. Starts again with a new
// population when the search makes no more progress.
class Evolutionary final : public SearchStrategy {
 public:
  explicit Evolutionary(const StrategyInput& input)
      : plans_(input.space, input.problem, input.seed) {}

  std::optional<ParallelPlan> Ask() override {
    Settle();
    ++asked_;
    if (stale_ >= kMaxStalePlans) population_.clear();
    const bool is_drawn = population_.size() < kPopulation || asked_ % kDrawEvery == 0;
    for (int i = 0; !is_drawn && i < kMaxKnownChildren; ++i) {
      child_ = Child();
      if (child_.has_value() && plans_.Take(child_->plan)) return child_->plan;
    }
    child_ = plans_.Draw();
    if (!child_.has_value()) return std::nullopt;
    plans_.Take(child_->plan);
    return child_->plan;
  }

  void Tell(const Observation& observation) override { plans_.Note(observation); }

 private:
  void Settle() {
    if (!child_.has_value()) return;
    const std::optional<PlanCost> cost = plans_.CostOf(child_->plan);
    if (cost.has_value()) {
      const auto place = std::ranges::upper_bound(population_, *cost, {}, &Individual::cost);
      stale_ = place == population_.begin() ? 0 : stale_ + 1;
      population_.insert(place, {.cost = *cost, .path = *std::move(child_)});
      if (population_.size() > kPopulation) population_.pop_back();
    }
    child_.reset();
  }

  // Returns the best of a few random individuals; the population is sorted.
  const PlanPath& Parent() {
    std::uint64_t best = plans_.Below(population_.size());
    for (int i = 1; i < kTournament; ++i) best = std::min(best, plans_.Below(population_.size()));
    return population_[best].path;
  }

  std::optional<PlanPath> Child() {
    const PlanPath& mother = Parent();
    const PlanPath& father = Parent();
    PlanValues values = mother.values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (plans_.Below(2) == 0) values[i] = father.values[i];
    }
    std::optional<PlanPath> child = plans_.Nearest(values);
    if (!child.has_value()) return std::nullopt;
    const auto dimension = static_cast<Dimension>(plans_.Below(kDimensionCount));
    const std::vector<int> left = plans_.Values(*child, dimension);
    return plans_.Moved(*child, dimension, left[plans_.Below(left.size())]);
  }

  LegalPlans plans_;
  std::vector<Individual> population_;  // best first
  std::optional<PlanPath> child_;
  std::int64_t asked_ = 0;
  int stale_ = 0;
};

}  // namespace

std::unique_ptr<SearchStrategy> MakeEvolutionary(const StrategyInput& input) {
  return std::make_unique<Evolutionary>(input);
}

}  // namespace meshwright
