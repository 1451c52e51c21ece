// The messages of pipelines over pools of different chips (issue 28, part 1).

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

NodePool Named(NodePool pool, std::string name) {
  pool.name = std::move(name);
  return pool;
}

// Llama-2-7B on pools "a" and "b" of plain nodes, with `bandwidth` per node between them and 30 us.
// A sequence of 4096 tokens has 2 x 4096 x 4096 = 33,554,432 bytes at a boundary.
OwnedProblem TwoPools(int nodes_of_a, int nodes_of_b, double bandwidth = 25e9) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), nodes_of_a);
  problem.cluster.pools.push_back(Named(PlainPool(nodes_of_b), "b"));
  problem.cluster.inter_pool = {.bandwidth_per_node = {bandwidth}, .latency = Seconds(30e-6)};
  return problem;
}

constexpr double kSequenceBytes = 33'554'432;

ParallelPlan Reversed(ParallelPlan plan) {
  std::reverse(plan.stages.begin(), plan.stages.end());
  return plan;
}

// Seconds that the slowest stage spends on messages for each micro-batch of 8 sequences.
double MessagesOfMicroBatch(const OwnedProblem& problem, const ParallelPlan& plan) {
  return Line(FullOf(problem, plan), TimeCause::kPipelineP2p) / (64.0 / 8);
}

// 8 nodes and one: whichever sends, 8 sequences pass through the link of the one node, 8 x
// 33,554,432 / 25e9 = 10.737418 ms and 30 us, for an activation and again for its gradient.
TEST(Boundary, BytesLeaveAndEnterNodes) {
  const OwnedProblem problem = TwoPools(8, 1);
  const StagePlan wide = {
      .pool = "a", .node_count = 8, .tensor_parallel = 8, .data_parallel = 8, .layer_count = 16};
  const StagePlan narrow = {
      .pool = "b", .node_count = 1, .tensor_parallel = 8, .layer_count = 16, .micro_batch_size = 8};
  const ParallelPlan plan = {
      .sequence_parallel = true, .pipeline_parallel = 2, .stages = {wide, narrow}};
  const double message = 30e-6 + 8 * kSequenceBytes / 25e9;
  EXPECT_NEAR(MessagesOfMicroBatch(problem, plan), 2 * message, 1e-9);
  EXPECT_NEAR(MessagesOfMicroBatch(problem, Reversed(plan)), 2 * message, 1e-9);
}

// Two pools of two nodes, one stage each, joined by 200 GB/s per node: 2 sequences through 2 nodes
// take 30 us + 33,554,432 / 200e9 = 197.77 us. The own network of pool "b" carries none of them;
// with 10 Gbit/s a message would take 40 us + 33,554,432 / (0.78 x 1.25e9) = 34.45 ms there.
TEST(Boundary, PoolOfOneStageSendsNothingInside) {
  OwnedProblem problem = TwoPools(2, 2, 200e9);
  problem.cluster.pools.back().inter_node = {
      .nic_count = 1, .nic_bandwidth = {1.25e9}, .latency = Seconds(40e-6)};
  const StagePlan stage = {
      .pool = "a", .node_count = 2, .tensor_parallel = 8, .data_parallel = 2, .layer_count = 16};
  ParallelPlan plan = {.sequence_parallel = true, .pipeline_parallel = 2, .stages = {stage, stage}};
  plan.stages[1].pool = "b";
  const double message = 30e-6 + kSequenceBytes / 200e9;
  for (const ParallelPlan& order : {plan, Reversed(plan)}) {
    const Estimate estimate = FullOf(problem, order);
    EXPECT_NEAR(Line(estimate, TimeCause::kPipelineP2p) / 32, 2 * message, 1e-9);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
