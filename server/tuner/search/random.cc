#include "search_space/spec/plan.h"
#include "server/tuner/search/legal_plans.h"
#include "server/tuner/search/strategies.h"
#include "server/tuner/search/strategy.h"

namespace meshwright {
namespace {

class Random final : public SearchStrategy {
 public:
  explicit Random(const StrategyInput& input) : plans_(input.space, input.problem, input.seed) {}

  std::optional<ParallelPlan> Ask() override {
    const std::optional<PlanPath> drawn = plans_.Draw();
    if (!drawn.has_value()) return std::nullopt;
    plans_.Take(drawn->plan);
    return drawn->plan;
  }

  void Tell(const Observation& /*observation*/) override {}

 private:
  LegalPlans plans_;
};

}  // namespace

std::unique_ptr<SearchStrategy> MakeRandom(const StrategyInput& input) {
  return std::make_unique<Random>(input);
}

}  // namespace meshwright
