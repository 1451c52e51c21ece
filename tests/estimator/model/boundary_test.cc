// The messages of pipelines over pools of different chips.

#include <gtest/gtest.h>

#include <algorithm>
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
// 33,554,432 / 25e9 = 10.737418 ms for an activation and again for its gradient. A rank of the 8
// nodes sends one slice, of 30 us, and a rank of the one node 8 in turn.
TEST(Boundary, BytesLeaveAndEnterNodes) {
  const OwnedProblem problem = TwoPools(8, 1);
  const StagePlan wide = {
      .pool = "a", .node_count = 8, .tensor_parallel = 8, .data_parallel = 8, .layer_count = 16};
  const StagePlan narrow = {
      .pool = "b", .node_count = 1, .tensor_parallel = 8, .layer_count = 16, .micro_batch_size = 8};
  const ParallelPlan plan = {
      .sequence_parallel = true, .pipeline_parallel = 2, .stages = {wide, narrow}};
  const double both = 2 * 8 * kSequenceBytes / 25e9 + (1 + 8) * 30e-6;
  EXPECT_NEAR(MessagesOfMicroBatch(problem, plan), both, 1e-9);
  EXPECT_NEAR(MessagesOfMicroBatch(problem, Reversed(plan)), both, 1e-9);
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

// Llama-2-7B in four stages of a node each, two of pool "a" and two of pool "b".
ParallelPlan FourStages(const StagePlan& stage) {
  ParallelPlan plan = {.pipeline_parallel = 4, .stages = {stage, stage, stage, stage}};
  plan.stages[2].pool = plan.stages[3].pool = "b";
  return plan;
}

constexpr StagePlan kEighth = {.pool = "a", .node_count = 1, .data_parallel = 8, .layer_count = 8};

// One micro-batch passes through every stage once, so that a step has the messages of all stages. A
// boundary of 2.5 GB/s instead of 25 makes a message of 8 x 33,554,432 bytes 96.6368 ms longer. If
// nothing runs beside messages, the two stages that touch the boundary wait for an activation and a
// gradient, 4 x 96.6368 ms; else a micro-batch crosses the boundary twice. The hops inside the
// pools are as fast as before.
TEST(Boundary, OnlyTheStagesThatTouchItWait) {
  for (const bool overlaps : {false, true}) {
    const auto step = [&](double bandwidth) {
      OwnedProblem problem = TwoPools(2, 2, bandwidth);
      problem.workload.global_batch_size = 8;
      problem.workload.overlap.pipeline_p2p = overlaps;
      return FullOf(problem, FourStages(kEighth)).step_time.count();
    };
    EXPECT_NEAR(step(2.5e9) - step(25e9), (overlaps ? 2 : 4) * 0.0966367642, 1e-9);
  }
}

// 2 x 4 ranks, 4 sequences each, and 8 x 1 rank with one. Without sequence parallelism the four
// ranks of a part hold the same. The one side sends 8 sequences once and the other four copies of
// each: 40 sequences of 33,554,432 bytes in all, whichever side comes first. With sequence
// parallelism both send 8. A rank of the wide side has 4 slices for ranks that have a fourth of its
// data; a rank of the narrow side has 4 for ranks that have a fourth of its sequence, or a copy
// each. So each way takes 4 latencies of 30 us.
TEST(Boundary, BytesFollowTheSlices) {
  const OwnedProblem problem = TwoPools(1, 1);
  const StagePlan wide = {.pool = "a",
                          .node_count = 1,
                          .tensor_parallel = 4,
                          .data_parallel = 2,
                          .layer_count = 16,
                          .micro_batch_size = 4};
  const StagePlan narrow = {.pool = "b", .node_count = 1, .data_parallel = 8, .layer_count = 16};
  for (const auto& [sequence_parallel, sequences] : {std::pair(false, 40), std::pair(true, 16)}) {
    const ParallelPlan plan = {
        .sequence_parallel = sequence_parallel, .pipeline_parallel = 2, .stages = {wide, narrow}};
    const double both = sequences * kSequenceBytes / 25e9 + 8 * 30e-6;
    EXPECT_NEAR(MessagesOfMicroBatch(problem, plan), both, 1e-9);
    EXPECT_NEAR(MessagesOfMicroBatch(problem, Reversed(plan)), both, 1e-9);
  }
}

// Data parallel 6 and 4 of 12 sequences: a rank with 2 sequences overlaps at most 2 ranks with 3
// (the second has 3 and 4, of 1 to 3 and of 4 to 6), a rank with 3 overlaps 2. 12 x 33,554,432
// bytes pass each way through the links of the side of four nodes.
TEST(Boundary, PartsThatDoNotDivide) {
  OwnedProblem problem = TwoPools(6, 4);
  for (NodePool& pool : problem.cluster.pools) pool.devices_per_node = 1;
  problem.workload.global_batch_size = 48;
  const StagePlan six = {
      .pool = "a", .node_count = 6, .data_parallel = 6, .layer_count = 16, .micro_batch_size = 2};
  const StagePlan four = {
      .pool = "b", .node_count = 4, .data_parallel = 4, .layer_count = 16, .micro_batch_size = 3};
  const ParallelPlan plan = {.pipeline_parallel = 2, .stages = {six, four}};
  const double message = 12 * kSequenceBytes / (4 * 25e9) + 2 * 30e-6;
  EXPECT_NEAR(Line(FullOf(problem, plan), TimeCause::kPipelineP2p) / 4, 2 * message, 1e-9);
}

// Tied embeddings: the vocabulary of 32,000 is padded to a multiple of 128 x 8, 32,768. Each of 8
// ranks holds an eighth of 32,768 x 4096 weights and exchanges their gradients in fp32 with its
// partner in the other pool: 2 x 30 us + 536,870,912 / 25e9 = 21.53483648 ms a step. Inside a pool
// nothing is charged.
TEST(Boundary, TiedEmbeddingsExchangeTheirGradient) {
  OwnedProblem problem = TwoPools(1, 1);
  const StagePlan stage = {.pool = "a", .node_count = 1, .tensor_parallel = 8, .layer_count = 16};
  ParallelPlan plan = {.pipeline_parallel = 2, .stages = {stage, stage}};
  const auto exchange = [&] {
    problem.model.tied_embeddings = false;
    const Seconds apart = FullOf(problem, plan).step_time;
    problem.model.tied_embeddings = true;
    return (FullOf(problem, plan).step_time - apart).count();
  };
  EXPECT_EQ(exchange(), 0);
  plan.stages[1].pool = "b";
  EXPECT_NEAR(exchange(), 0.02153483648, 1e-9);
}

void ExpectSame(const Estimate& a, const Estimate& b) {
  EXPECT_EQ(a.step_time, b.step_time);
  EXPECT_EQ(a.breakdown, b.breakdown);
  EXPECT_EQ(a.peak_memory, b.peak_memory);
  EXPECT_EQ(a.reserved_memory, b.reserved_memory);
}

// Two pools of equal chips are one pool if the link between them is equal to the network: 8 x 25
// GB/s per node, of which a message gets 0.78, and 40 us.
TEST(Boundary, EqualPoolsAreOnePool) {
  struct Shape {
    int tensor_parallel;
    int micro_batch_size;
    bool overlaps;
    int virtual_pipeline;
  };
  for (const Shape& shape : {Shape{1, 1, false, 1}, Shape{1, 1, true, 1}, Shape{4, 2, false, 1},
                             Shape{8, 1, true, 1}, Shape{2, 1, false, 2}, Shape{2, 1, true, 2}}) {
    OwnedProblem two = TwoPools(2, 2, 0.78 * 8 * 25e9);
    two.cluster.inter_pool.latency = Seconds(40e-6);
    two.workload.overlap.pipeline_p2p = shape.overlaps;
    OwnedProblem one = two;
    one.cluster.pools = {PlainPool(4)};
    ParallelPlan flat = {.tensor_parallel = shape.tensor_parallel,
                         .sequence_parallel = shape.tensor_parallel == 8,
                         .pipeline_parallel = 4,
                         .virtual_pipeline = shape.virtual_pipeline,
                         .data_parallel = 8 / shape.tensor_parallel,
                         .micro_batch_size = shape.micro_batch_size,
                         .zero_stage = 1};
    if (shape.virtual_pipeline > 1) flat.schedule = Schedule::kInterleaved1f1b;
    StagePlan stage = kEighth;
    stage.tensor_parallel = flat.tensor_parallel;
    stage.data_parallel = flat.data_parallel;
    stage.micro_batch_size = flat.micro_batch_size;
    ParallelPlan mixed = flat;
    mixed.stages = FourStages(stage).stages;
    ExpectSame(FullOf(two, mixed), FullOf(one, flat));
    EXPECT_EQ(AnalyticModel(two.View()).Quick(mixed).step_time,
              AnalyticModel(one.View()).Quick(flat).step_time);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
