// Plans whose stages share nodes, whose pools have links of their own, or whose replicas differ.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Llama-2-7B on the pools "a" and "b" of plain nodes, with 25 GB/s a node between them and 30 us.
// A sequence of 4096 tokens has 2 x 4096 x 4096 = 33,554,432 bytes at a boundary.
OwnedProblem TwoPools(int nodes_of_a, int nodes_of_b) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), nodes_of_a);
  problem.cluster.pools.push_back(PlainPool(nodes_of_b));
  problem.cluster.pools.back().name = "b";
  problem.cluster.inter_pool = {.bandwidth_per_node = {25e9}, .latency = Seconds(30e-6)};
  return problem;
}

constexpr double kSequenceBytes = 33'554'432;

// A whole node with one rank of data parallelism.
StagePlan NodeOf(std::string pool, int layers) {
  return {.pool = std::move(pool), .node_count = 1, .tensor_parallel = 8, .layer_count = layers};
}

ParallelPlan TwoStages() {
  return {.sequence_parallel = true,
          .pipeline_parallel = 2,
          .stages = {NodeOf("a", 16), NodeOf("b", 16)}};
}

double MessagesOf(const OwnedProblem& problem) {
  return FullOf(problem, TwoStages()).stages.front().messages.count();
}

// An activation and its gradient: 30 us + 33,554,432 / 25e9 = 1.372177 ms each. Through the hosts
// they are copied by eight devices of 26 GB/s on both sides, 33,554,432 / 208e9 = 0.161319 ms each.
TEST(PoolLinksOfPlans, HostsCopyOnBothSides) {
  OwnedProblem problem = TwoPools(1, 1);
  const double direct = 2 * (30e-6 + kSequenceBytes / 25e9);
  const double copies = 4 * kSequenceBytes / (8 * 26e9);
  EXPECT_NEAR(MessagesOf(problem), direct, 1e-12);
  problem.cluster.pool_links = {
      {.from = "b", .to = "a", .link = problem.cluster.inter_pool, .path = LinkPath::kHost}};
  EXPECT_NEAR(MessagesOf(problem), direct + copies, 1e-12);
  problem.cluster.pool_links = {
      {.from = "a", .to = "b", .link = {.bandwidth_per_node = {5e9}, .latency = Seconds(1e-4)}}};
  EXPECT_NEAR(MessagesOf(problem), 2 * (1e-4 + kSequenceBytes / 5e9), 1e-12);
}

// Chips of different vendors have no common library of collectives, unless a link states it.
TEST(PoolLinksOfPlans, VendorsThatDifferGoThroughTheHosts) {
  OwnedProblem problem = TwoPools(1, 1);
  const double direct = MessagesOf(problem);
  problem.cluster.pools.back().chip.vendor = "another";
  EXPECT_NEAR(MessagesOf(problem), direct + 4 * kSequenceBytes / (8 * 26e9), 1e-12);
  problem.cluster.pool_links = {{.from = "a", .to = "b", .link = problem.cluster.inter_pool}};
  EXPECT_EQ(MessagesOf(problem), direct);
}

// Four stages of four devices in two nodes. A rank sends 33,554,432 / 4 = 8,388,608 bytes: inside a
// node 10 us + 8,388,608 / (0.75 x 300e9) = 47.2827 us, between the second and the third stage 40
// us
// + 8,388,608 / (0.78 x 25e9) = 470.185 us.
TEST(PartsOfNodes, StagesOfANodeUseItsOwnLink) {
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 2);
  const StagePlan half = {
      .pool = "a", .node_count = 1, .tensor_parallel = 4, .layer_count = 8, .device_count = 4};
  const Estimate estimate = FullOf(
      problem,
      {.sequence_parallel = true, .pipeline_parallel = 4, .stages = {half, half, half, half}});
  const double inside = 10e-6 + 8'388'608 / 225e9;
  const double outside = 40e-6 + 8'388'608 / 19.5e9;
  const double messages[] = {2 * inside, 2 * (inside + outside), 2 * (inside + outside),
                             2 * inside};
  ASSERT_EQ(estimate.stages.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(estimate.stages[i].messages.count(), messages[i], 1e-12) << i;
  }
  EXPECT_EQ(estimate.tokens_per_second_per_device * 16, 64 * 4096 / estimate.step_time.count());
  EXPECT_TRUE(estimate.idle_nodes_by_pool.empty());
}

// One stage of half a node leaves two nodes idle, and the other pool.
TEST(PartsOfNodes, IdleNodesAreCounted) {
  const OwnedProblem problem = TwoPools(3, 2);
  const Estimate estimate = FullOf(problem, {.stages = {{.pool = "a",
                                                         .node_count = 1,
                                                         .tensor_parallel = 4,
                                                         .layer_count = 32,
                                                         .device_count = 4}}});
  EXPECT_EQ(estimate.idle_nodes_by_pool, (std::map<std::string, int>{{"a", 2}, {"b", 2}}));
}

// Replicas on a node of "a" and on one of "b", with 48 and 16 of the 64 sequences.
ParallelPlan Unequal(int of_a = 48, int of_b = 16) {
  return {.sequence_parallel = true,
          .replica_groups = {{.micro_batch_count = of_a, .stages = {NodeOf("a", 32)}},
                             {.micro_batch_count = of_b, .stages = {NodeOf("b", 32)}}}};
}

Seconds PipelineOf(const Estimate& estimate) {
  Seconds rest(0);
  for (const TimeCause cause :
       {TimeCause::kDataParallel, TimeCause::kOptimizer, TimeCause::kFixed}) {
    rest += estimate.breakdown[static_cast<std::size_t>(cause)];
  }
  return estimate.step_time - rest;
}

// The step waits for the replica with 48 micro-batches; the other computes a third of the time.
TEST(ReplicaGroups, TheStepEndsWithTheSlowestReplica) {
  const OwnedProblem problem = TwoPools(1, 1);
  const Estimate estimate = FullOf(problem, Unequal());
  ASSERT_EQ(estimate.stages.size(), 2u);
  const StageEstimate& slow = estimate.stages.front();
  const StageEstimate& fast = estimate.stages.back();
  EXPECT_EQ(slow.forward, fast.forward);
  const double micro_batch = (slow.forward + slow.backward).count();
  EXPECT_NEAR(PipelineOf(estimate).count(), 48 * micro_batch, 1e-9);
  EXPECT_NEAR(1 - fast.idle_ratio, 16 * micro_batch / estimate.step_time.count(), 1e-9);
  EXPECT_EQ(slow.replica_group, 0);
  EXPECT_EQ(fast.replica_group, 1);
  EXPECT_EQ(FullOf(problem, Unequal(16, 48)).step_time, estimate.step_time);
  EXPECT_EQ(estimate.tokens_per_second_per_device * 16, 64 * 4096 / estimate.step_time.count());
}

// A rank has an eighth of each matrix, 32 x (4 x 4096^2 + 3 x 4096 x 11008) + 2 x 32768 x 4096 =
// 6,744,440,832 parameters in all with the padded vocabulary, and the norms of the layers, 64 x
// 4096. Two ranks reduce 4 bytes of each in a ring over the link of 25 GB/s that eight rings share:
// 2 x 1/2 x bytes x 8 / 25e9, and two messages of 30 us.
TEST(ReplicaGroups, GradientsPassOverTheLinkOfThePools) {
  OwnedProblem problem = TwoPools(1, 1);
  problem.profile.bucket_parameters = 1e12;
  const double bytes = 4 * (6'744'440'832.0 / 8 + 64 * 4096);
  const auto reduction = [&] { return Line(FullOf(problem, Unequal()), TimeCause::kDataParallel); };
  EXPECT_NEAR(reduction(), bytes * 8 / 25e9 + 60e-6, 1e-9);
  // A link of a tenth takes ten times as long for the bytes.
  problem.cluster.pool_links = {
      {.from = "a", .to = "b", .link = {.bandwidth_per_node = {2.5e9}, .latency = Seconds(30e-6)}}};
  EXPECT_NEAR(reduction(), bytes * 8 / 2.5e9 + 60e-6, 1e-9);
  // Through the hosts, each rank copies its part out of one device and into another.
  problem.cluster.pool_links.front().path = LinkPath::kHost;
  EXPECT_NEAR(reduction(), bytes * (8 / 2.5e9 + 2 / 26e9) + 60e-6, 1e-9);
}

// ZeRO 1 shares the optimizer's states between all replicas, three here.
TEST(ReplicaGroups, StatesAreSharedByAllReplicas) {
  const OwnedProblem problem = TwoPools(2, 1);
  ParallelPlan plan = Unequal(24, 16);
  plan.replica_groups.front().replica_count = 2;
  const auto states = [&](int zero_stage) {
    plan.zero_stage = zero_stage;
    return FullOf(problem, plan)
        .memory_breakdown[static_cast<std::size_t>(MemoryKind::kOptimizerStates)]
        .count;
  };
  EXPECT_NEAR(static_cast<double>(states(1)) / static_cast<double>(states(0)), 1.0 / 3, 1e-9);
}

// Pipelines of two stages that hold the layers in other shares: each has its own layers, and the
// estimate has all four stages.
TEST(ReplicaGroups, ReplicasMayCutTheModelElsewhere) {
  const OwnedProblem problem = TwoPools(2, 2);
  const ParallelPlan plan = {
      .sequence_parallel = true,
      .pipeline_parallel = 2,
      .replica_groups = {{.micro_batch_count = 32, .stages = {NodeOf("a", 20), NodeOf("b", 12)}},
                         {.micro_batch_count = 32, .stages = {NodeOf("a", 10), NodeOf("b", 22)}}}};
  const Estimate estimate = FullOf(problem, plan);
  ASSERT_EQ(estimate.stages.size(), 4u);
  ASSERT_EQ(estimate.stage_memory.size(), 4u);
  const auto layers = [&](std::size_t i) { return estimate.stages[i].forward.count(); };
  EXPECT_GT(layers(0), 1.9 * layers(2));
  EXPECT_GT(layers(3), layers(1));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
