// Lower bounds of plans that share their first dimensions.
#include "estimator/model/plan_bounds.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr double kRounding = 1 + 1e-12;  // sums in different orders

// Returns plans with the same prefix and different places of the experts: expert parallelism,
// expert-tensor parallelism, rank order.
std::vector<ParallelPlan> WaysToShareExperts(const ParallelPlan& prefix) {
  std::vector<ParallelPlan> plans;
  for (const int e : {1, 2, 8, 64}) {
    for (const int x : {1, 2}) {
      for (const RankOrder order : {RankOrder::kTpCpEpDpPp, RankOrder::kTpCpEpPpDp}) {
        if (e * x > 128 / prefix.pipeline_parallel || prefix.tensor_parallel % x != 0) continue;
        ParallelPlan plan = prefix;
        plan.expert_parallel = e;
        plan.expert_tensor_parallel = x;
        plan.rank_order = order;
        plans.push_back(plan);
      }
    }
  }
  return plans;
}

struct Case {
  std::string name;
  std::string chip;
  std::string framework = "megatron-core";
  Precision precision = Precision::kBf16;
  bool grouped = true;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class BoundsTest : public testing::TestWithParam<Case> {};

TEST_P(BoundsTest, TimeOfAnyExpertsIsBelowAllOfThem) {
  const Case& c = GetParam();
  OwnedProblem problem = FrameworkProblem(DeepseekV3(), c.chip, 16, c.framework);
  problem.workload.precision = c.precision;
  problem.workload.grouped_gemm = c.grouped;
  problem.workload.global_batch_size = 1024;
  AnalyticModel model(problem.View());
  for (const int t : {1, 2, 8}) {
    for (const int p : {1, 4}) {
      for (const int b : {1, 4}) {
        ParallelPlan prefix = {.tensor_parallel = t,
                               .sequence_parallel = t > 1,
                               .pipeline_parallel = p,
                               .data_parallel = 128 / t / p,
                               .micro_batch_size = b,
                               .zero_stage = 1};
        const Seconds of_any = *PlanBounds(model).LeastTimeOfAnyExperts(prefix);
        // Attention, the dense layers, the head and all products are in it; launches are not.
        EXPECT_GT(of_any, (c.grouped ? 0.2 : 0.05) * *PlanBounds(model).LeastTimeBelow(prefix));
        for (const ParallelPlan& plan : WaysToShareExperts(prefix)) {
          const Seconds below = *PlanBounds(model).LeastTimeBelow(plan);
          const Seconds step = model.Quick(plan).step_time;
          const std::string text = MakePlanKey(plan).text;
          EXPECT_LE(of_any, below * kRounding) << text;
          EXPECT_LE(of_any, step) << text;
          EXPECT_LE(below, step) << text;
          EXPECT_LE(PlanBounds(model).LeastTimeOfPipeline(plan), step) << text;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BoundsTest,
    testing::Values(
        Case{.name = "H800", .chip = "nvidia-h800-sxm5-80gb"},
        Case{.name = "A100", .chip = "nvidia-a100-sxm4-80gb"},
        Case{.name = "Ungrouped", .chip = "nvidia-h100-sxm5-80gb", .grouped = false},
        Case{.name = "Fp8", .chip = "nvidia-h100-sxm5-80gb", .precision = Precision::kFp8}),
    [](const auto& test) { return test.param.name; });

// Both bounds are the same for a model without experts.
TEST(BoundsTest, WithoutExpertsNothingIsLeftOut) {
  const OwnedProblem problem =
      FrameworkProblem(Llama2_70b(), "nvidia-h100-sxm5-80gb", 16, "megatron-core");
  AnalyticModel model(problem.View());
  const ParallelPlan plan = {
      .tensor_parallel = 8, .sequence_parallel = true, .pipeline_parallel = 4, .data_parallel = 4};
  EXPECT_EQ(*PlanBounds(model).LeastTimeOfAnyExperts(plan),
            *PlanBounds(model).LeastTimeBelow(plan));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
