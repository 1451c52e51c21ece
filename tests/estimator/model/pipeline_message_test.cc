#include <gtest/gtest.h>

#include <ostream>

#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Case {
  const char* name;
  int node_count;
  bool sends_shards;
  ParallelPlan plan;
  double microseconds;  // per message
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr ParallelPlan kAcross = {.tensor_parallel = 8, .pipeline_parallel = 2};
constexpr ParallelPlan kAcrossSequence = {
    .tensor_parallel = 8, .sequence_parallel = true, .pipeline_parallel = 2};
constexpr ParallelPlan kInNode = {.tensor_parallel = 4, .pipeline_parallel = 2};

// Llama-2-7B, 4096 tokens: a boundary of 2 x 4096 x 4096 = 33,554,432 bytes. Across nodes a message
// takes 40 us + bytes / (0.78 x 25 GB/s), in a node 10 us + bytes / (0.75 x 300 GB/s); a gather
// among t ranks of a node 2 t us + 5 us + (x + sqrt(x 4.4 MB)) / 225 GB/s with x = (t - 1)/t of the
// boundary (docs/cost_model/collectives.md).
const Case kCases[] = {
    {"Whole", 2, false, kAcross, 40 + 1720.7401},
    // 4,194,304 bytes, then x = 29,360,128: 21 + (29,360,128 + 11,365,939) / 225e3
    {"Shards", 2, true, kAcross, 40 + 215.0925 + 202.0047},
    // Sequence parallelism has its own share already, and needs no more.
    {"SequenceParallel", 2, false, kAcrossSequence, 40 + 215.0925},
    {"SequenceParallelShards", 2, true, kAcrossSequence, 40 + 215.0925},
    {"OneRank", 2, true, {.pipeline_parallel = 2, .data_parallel = 8}, 40 + 1720.7401},
    {"WholeInNode", 1, false, kInNode, 10 + 149.1308},
    // 8,388,608 bytes, then x = 25,165,824: 13 + (25,165,824 + 10,522,814) / 225e3
    {"ShardsInNode", 1, true, kInNode, 10 + 37.2827 + 171.6162},
};

class PipelineMessageTest : public testing::TestWithParam<Case> {};

// Without overlap each micro-batch waits for two messages, the activation and its gradient; 64
// sequences per step are 64 / d micro-batches.
TEST_P(PipelineMessageTest, Time) {
  const Case& c = GetParam();
  OwnedProblem problem = PlainProblem(Llama2_7b(), c.node_count);
  problem.profile.pipeline_sends_shards = c.sends_shards;
  const double messages = 2 * 64.0 / c.plan.data_parallel;
  EXPECT_NEAR(Line(FullOf(problem, c.plan), TimeCause::kPipelineP2p) / messages,
              c.microseconds * 1e-6, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(All, PipelineMessageTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Between pools a node's 8 devices share a link of 25 GB/s, 30 us: 8 x 33,554,432 bytes without
// sequence parallelism; in shards of 4 ranks a quarter of that, and a gather of 4 in the other
// node, 13 us + (25,165,824 + 10,522,814) / 225e3 us as above.
TEST(PipelineMessage, BetweenPools) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.cluster.pools.push_back(PlainPool(1));
  problem.cluster.pools.back().name = "b";
  problem.cluster.inter_pool = {.bandwidth_per_node = {25e9}, .latency = Seconds(30e-6)};
  const StagePlan stage = {
      .pool = "a", .node_count = 1, .tensor_parallel = 4, .data_parallel = 2, .layer_count = 16};
  ParallelPlan plan = {.pipeline_parallel = 2, .stages = {stage, stage}};
  plan.stages[1].pool = "b";
  const auto message = [&] {
    return Line(FullOf(problem, plan), TimeCause::kPipelineP2p) / (2 * 64.0 / 2);
  };
  const double whole = 8 * 33'554'432 / 25e9;
  EXPECT_NEAR(message(), 30e-6 + whole, 1e-8);
  problem.profile.pipeline_sends_shards = true;
  EXPECT_NEAR(message(), 30e-6 + whole / 4 + (13 + 158.6162) * 1e-6, 1e-8);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
