#include <gtest/gtest.h>

#include <ostream>

#include "estimator/model/analytic_model.h"
#include "estimator/model/forward_flops.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/model.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Case {
  const char* name;
  ModelSpec model;
  double matmul_parameters;  // that one token meets
  double attention_flops;    // for one token at 4096
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Forward FLOPs of a token = 2 x the matrix elements that it meets + causal attention,
// 2 a (2g) s / 2 a layer (docs/glossary/figures.md, MFU).
//
// Llama-2-70B: a layer has h(q + 2u) + q h = 150,994,944 and 3 h f = 704,643,072; 80 layers and the
// output layer 32000 * 8192 = 262,144,000: 68,713,185,280. Attention 2 * 8192 * 4096 * 80.
//
// DeepSeek-V3: MLA 7168*1536 + 1536*128*192 + 7168*576 + 512*128*256 + 128*128*7168 = 187,105,280
// in 61 layers; 3 * 7168 * 18432 = 396,361,728 in 3; router 1,835,008, shared expert 44,040,192 and
// 8 experts 352,321,536 in 58; output layer 129280 * 7168: 36,624,596,992. (37 billion active, as
// the report says, with the embedding.) Attention 128 * (192 + 128) * 4096 * 61.
const Case kCases[] = {
    {"Llama2_70b", Llama2_70b(), 68'713'185'280.0, 2.0 * 8192 * 4096 * 80},
    {"DeepseekV3", DeepseekV3(), 36'624'596'992.0, 128.0 * 320 * 4096 * 61},
};

class ForwardFlopsTest : public testing::TestWithParam<Case> {};

TEST_P(ForwardFlopsTest, PerToken) {
  const Case& c = GetParam();
  OwnedProblem problem = PlainProblem(c.model, 1);
  const double expected = 2 * c.matmul_parameters + c.attention_flops;
  EXPECT_NEAR(ForwardFlopsPerToken(problem.View()), expected, 1e-12 * expected);
  // The kernel that runs, the batch and the router's luck do not change what a model needs.
  problem.workload.attention_kernel = AttentionKernel::kUnfused;
  problem.workload.global_batch_size = 7;
  if (problem.model.moe.has_value()) problem.model.moe->imbalance_ratio = 2;
  EXPECT_NEAR(ForwardFlopsPerToken(problem.View()), expected, 1e-12 * expected);
}

INSTANTIATE_TEST_SUITE_P(All, ForwardFlopsTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// MFU = 3 x forward FLOPs of a token x tokens/s/device / peak, with any recomputation.
TEST(ModelFlopsUtilization, DoesNotCountRecomputation) {
  const OwnedProblem problem = PlainProblem(Llama2_70b(), 2);
  for (const auto granularity : {RecomputeGranularity::kNone, RecomputeGranularity::kFull}) {
    const Estimate estimate = FullOf(
        problem,
        {.tensor_parallel = 8, .pipeline_parallel = 2, .recompute = {.granularity = granularity}});
    const double rate = 64.0 * 4096 / estimate.step_time.count() / 16;
    EXPECT_NEAR(estimate.tokens_per_second_per_device, rate, 1e-9 * rate);
    const double mfu = 3 * ForwardFlopsPerToken(problem.View()) * rate / 312e12;
    EXPECT_NEAR(estimate.model_flops_utilization, mfu, 1e-9 * mfu);
    EXPECT_LT(mfu, 1);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
