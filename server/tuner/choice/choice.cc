#include "server/tuner/choice/choice.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "server/tuner/choice/plainness.h"

namespace meshwright {
namespace {

// Plans that fit with at least this probability are equally sure to fit.
constexpr double kSure = 0.99;
// What a start that runs out of memory costs, in steps of the plan that runs instead.
constexpr double kFailedStart = 1;

class Ranking {
 public:
  Ranking(std::span<const Alternative> alternatives, const ChoiceOptions& options)
      : alternatives_(alternatives), options_(options), order_(alternatives.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    FindSafeSteps();
    for (std::size_t i = 0; i < alternatives.size(); ++i) costs_.push_back(CostOf(i));
  }

  std::vector<std::size_t> Order() {
    std::ranges::stable_sort(
        order_, {}, [&](std::size_t i) { return std::tuple(has_safe_ && !IsSafe(i), costs_[i]); });
    if (!order_.empty()) PreferPlainest();
    return order_;
  }

 private:
  [[nodiscard]] double Fits(std::size_t i) const {
    return alternatives_[i].estimate.fit_probability;
  }
  [[nodiscard]] bool IsSafe(std::size_t i) const { return Fits(i) >= options_.min_fit_probability; }
  [[nodiscard]] double Step(std::size_t i) const {
    return alternatives_[i].estimate.step_time.count();
  }

  // Finds the two shortest steps of plans that are safe: the plan that runs after a failed start.
  void FindSafeSteps() {
    for (const std::size_t i : order_) {
      if (!IsSafe(i)) continue;
      has_safe_ = true;
      safe_.push_back(i);
    }
    if (!has_safe_) safe_ = order_;
    std::ranges::sort(safe_, {}, [&](std::size_t i) { return Step(i); });
    safe_.resize(std::min<std::size_t>(safe_.size(), 2));
  }

  // Returns the expected time of a step, with the cost of a failed start. Without another plan, a
  // failed start is followed by the same.
  [[nodiscard]] double CostOf(std::size_t i) const {
    const std::size_t next = safe_.front() != i || safe_.size() < 2 ? safe_.front() : safe_.back();
    return Fits(i) * Step(i) + (1 - Fits(i)) * (kFailedStart + 1) * std::max(Step(next), Step(i));
  }

  // Returns whether a plan cannot be told apart from the cheapest one.
  [[nodiscard]] bool IsTied(std::size_t cheapest, std::size_t i) const {
    const Alternative& a = alternatives_[cheapest];
    const Alternative& b = alternatives_[i];
    return FasterProbability(a.estimate.step_time, a.uncertainty, b.estimate.step_time,
                             b.uncertainty) < options_.tie_probability;
  }

  // Moves the plans that are tied with the cheapest to the front, the safest and plainest first.
  void PreferPlainest() {
    const std::size_t cheapest = order_.front();
    const auto end = std::stable_partition(order_.begin(), order_.end(), [&](std::size_t i) {
      return (!has_safe_ || IsSafe(i)) && IsTied(cheapest, i);
    });
    std::stable_sort(order_.begin(), end,
                     [&](std::size_t a, std::size_t b) { return PlainnessOf(a) < PlainnessOf(b); });
  }

  [[nodiscard]] std::tuple<double, Provenance, std::size_t, int, double> PlainnessOf(
      std::size_t i) const {
    const ParallelPlan& plan = alternatives_[i].plan;
    return {-std::min(Fits(i), kSure), alternatives_[i].estimate.provenance,
            UnmeasuredFeatures(plan).size(),
            options_.own.has_value() ? DistanceOf(plan, *options_.own) : 0, costs_[i]};
  }

  std::span<const Alternative> alternatives_;
  const ChoiceOptions& options_;
  std::vector<std::size_t> order_;
  std::vector<std::size_t> safe_;
  std::vector<double> costs_;
  bool has_safe_ = false;
};

}  // namespace

std::vector<std::size_t> RankChoices(std::span<const Alternative> alternatives,
                                     const ChoiceOptions& options) {
  return Ranking(alternatives, options).Order();
}

}  // namespace meshwright
