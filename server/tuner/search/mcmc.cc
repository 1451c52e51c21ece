#include <cmath>

#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"
#include "server/tuner/search/legal_plans.h"
#include "server/tuner/search/strategies.h"
#include "server/tuner/search/strategy.h"

namespace meshwright {
namespace {

constexpr double kTemperature = 0.03;  // a plan 3 % slower is taken with probability 1 / e
constexpr int kMaxKnownMoves = 200;    // consecutive moves to plans that had been tried before
constexpr int kMaxStaleMoves = 500;    // moves since the chain found its best

// Proposes a plan that differs in one random dimension, sometimes two. Always accepts a better
// plan, and a worse one with a probability that falls with its cost. Starts again from a random
// plan when it is stuck.
class Mcmc final : public SearchStrategy {
 public:
  explicit Mcmc(const StrategyInput& input) : plans_(input.space, input.problem, input.seed) {}

  std::optional<ParallelPlan> Ask() override {
    Settle();
    for (int i = 0; here_.has_value() && i < kMaxKnownMoves && stale_ < kMaxStaleMoves; ++i) {
      proposal_ = Propose();
      if (!proposal_.has_value()) continue;
      if (plans_.Take(proposal_->plan)) return proposal_->plan;
      Settle();
    }
    here_.reset();
    proposal_ = plans_.Draw();
    if (!proposal_.has_value()) return std::nullopt;
    plans_.Take(proposal_->plan);
    return proposal_->plan;
  }

  void Tell(const Observation& observation) override { plans_.Note(observation); }

 private:
  std::optional<PlanPath> Propose() {
    std::optional<PlanPath> moved = ChangeOne(*here_);
    if (moved.has_value() && plans_.Below(3) == 0) {
      if (std::optional<PlanPath> twice = ChangeOne(*moved)) return twice;
    }
    return moved;
  }

  // Changes a random dimension to another value. Returns nullopt if there is no other value or no
  // plan with one.
  std::optional<PlanPath> ChangeOne(const PlanPath& path) {
    const auto dimension = static_cast<Dimension>(plans_.Below(kDimensionCount));
    const std::vector<int> values = plans_.Values(path, dimension);
    if (values.size() < 2) return std::nullopt;
    const int value = values[plans_.Below(values.size())];
    if (value == path.values[static_cast<std::size_t>(dimension)]) return std::nullopt;
    return plans_.Moved(path, dimension, value);
  }

  // Decides, once the cost of the proposal is known, if the chain moves to it.
  void Settle() {
    if (!proposal_.has_value()) return;
    const std::optional<PlanCost> cost = plans_.CostOf(proposal_->plan);
    if (cost.has_value() && (!here_.has_value() || IsTaken(*cost))) {
      const bool is_best = !here_.has_value() || *cost < best_;
      if (is_best) best_ = *cost;
      stale_ = is_best ? 0 : stale_;
      cost_ = *cost;
      here_ = *std::move(proposal_);
    }
    ++stale_;
    proposal_.reset();
  }

  bool IsTaken(const PlanCost& cost) {
    if (cost <= cost_) return true;
    if (cost.is_oversized != cost_.is_oversized) return false;
    return plans_.Unit() < std::pow(cost_.amount / cost.amount, 1 / kTemperature);
  }

  LegalPlans plans_;
  std::optional<PlanPath> here_;
  std::optional<PlanPath> proposal_;
  PlanCost cost_;  // cost of here_
  PlanCost best_;  // lowest cost of the chain
  int stale_ = 0;
};

}  // namespace

std::unique_ptr<SearchStrategy> MakeMcmc(const StrategyInput& input) {
  return std::make_unique<Mcmc>(input);
}

}  // namespace meshwright
