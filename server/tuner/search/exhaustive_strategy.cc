#include "pruner/rules/recompute.h"
#include "search_space/spec/plan.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/strategies.h"
#include "server/tuner/search/strategy.h"

namespace meshwright {
namespace {

constexpr std::size_t kPlanCount = 20;  // a larger number weakens the bound

class Exhaustive final : public SearchStrategy {
 public:
  explicit Exhaustive(const StrategyInput& input) : input_(input) {}

  std::optional<ParallelPlan> Ask() override {
    if (!ranked_.has_value()) {
      ranked_ = SearchExhaustively(input_.space, input_.problem, input_.calibration,
                                   {.plan_count = kPlanCount})
                    .best;
    }
    if (next_ == ranked_->size()) return std::nullopt;
    return (*ranked_)[next_++].plan;
  }

  // Does nothing: the order is the model's.
  void Tell(const Observation& /*observation*/) override {}

 private:
  StrategyInput input_;
  std::optional<std::vector<RecomputeChoice>> ranked_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<SearchStrategy> MakeExhaustive(const StrategyInput& input) {
  return std::make_unique<Exhaustive>(input);
}

}  // namespace meshwright
