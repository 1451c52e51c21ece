// The places of ranks if the stages of a pipeline lie between those of data parallelism.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "estimator/model/analytic_model.h"
#include "estimator/model/plan_bounds.h"
#include "estimator/terms/collective.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct PlaceCase {
  const char* name;
  int ranks;
  int stride;  // among the stage's own devices
  StageBlocks blocks;
  int devices_per_node;
  GroupShape expected;
};

void PrintTo(const PlaceCase& c, std::ostream* out) { *out << c.name; }

// A stage's blocks of tensor x context devices are `blocks.stride` blocks apart: with t = 2, c = 2,
// p = 2 the devices of stage 0 are 0-3, 8-11, 16-19 ...
constexpr PlaceCase kPlaceCases[] = {
    {"NeighbouringBlocks", 8, 4, {4, 1}, 8, {2, 4}},  // as PlaceGroup
    {"APipelineFillsTheNode", 4, 1, {1, 8}, 8, {1, 4}},
    {"TwoPipelinesANode", 4, 1, {1, 4}, 8, {2, 2}},         // 0 and 4 | 8 and 12
    {"BesideTensor", 8, 2, {2, 2}, 8, {2, 4}},              // 0 and 4 | 8 and 12 | ...
    {"ContextJoinsData", 8, 2, {4, 2}, 8, {2, 4}},          // 0 and 2 | 8 and 10 | ...
    {"PartOfTheContext", 2, 2, {8, 2}, 8, {2, 1}},          // 0 and 2 of 0, 2, 4, 6
    {"APipelineOverTwoNodes", 4, 4, {4, 4}, 8, {1, 4, 2}},  // 0 | - | 16 | - | 32 ...
    {"ABlockOfTwoNodes", 2, 16, {16, 2}, 8, {1, 2, 2}},     // 0 and 32; neighbours: 0 and 16
    {"ExpertsOverBlocks", 8, 1, {2, 2}, 8, {4, 2}},         // 0, 1, 4, 5 | 8, 9, 12, 13
    {"ExpertsInABlock", 2, 1, {4, 4}, 8, {2, 1}},           // 0 and 1
    {"CopiesOfExperts", 2, 8, {2, 2}, 8, {1, 2, 2}},        // 0 and 16; neighbours: 0 and 8
    {"OverTheEdgeOfABlock", 4, 1, {6, 2}, 8, {2, 2, 2}},    // 4, 5 | - | 12, 13 at best
    {"ANodeOfManyBlocks", 4, 1, {6, 2}, 24, {4, 1}},        // 4, 5, 12, 13
};

class PlaceInStageTest : public testing::TestWithParam<PlaceCase> {};

TEST_P(PlaceInStageTest, Shape) {
  const PlaceCase& c = GetParam();
  const GroupShape shape = PlaceInStage(c.ranks, c.stride, c.blocks, c.devices_per_node);
  EXPECT_EQ(shape.in_node, c.expected.in_node);
  EXPECT_EQ(shape.nodes, c.expected.nodes);
  EXPECT_EQ(shape.node_stride, c.expected.node_stride);
}

INSTANTIATE_TEST_SUITE_P(All, PlaceInStageTest, testing::ValuesIn(kPlaceCases),
                         [](const auto& test) { return std::string(test.param.name); });

ParallelPlan Inside(ParallelPlan plan) {
  plan.rank_order = RankOrder::kTpCpEpPpDp;
  return plan;
}

// Llama-2-7B on two nodes of eight, t = 2, p = 4: the four stages of a pipeline fill a node.
constexpr ParallelPlan kNodeLong = {
    .tensor_parallel = 2, .pipeline_parallel = 4, .data_parallel = 2};

// 32 micro-batches of two messages of 33,554,432 bytes (pipeline_message_test.cc): 40 us + bytes /
// (0.78 x 25 GB/s) to the other node, 10 us + bytes / (0.75 x 300 GB/s) inside.
TEST(RankOrderTest, MessagesStayInTheNode) {
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 2);
  const auto message = [&](const ParallelPlan& plan) {
    return Line(FullOf(problem, plan), TimeCause::kPipelineP2p) / 64;
  };
  EXPECT_NEAR(message(kNodeLong), (40 + 1720.7401) * 1e-6, 1e-9);
  EXPECT_NEAR(message(Inside(kNodeLong)), (10 + 149.1308) * 1e-6, 1e-9);
  // Stages of four devices: the second and the third of four lie in different nodes.
  const ParallelPlan longer = {.tensor_parallel = 4, .pipeline_parallel = 4, .data_parallel = 2};
  const OwnedProblem four = PlainProblem(Llama2_7b(), 4);
  EXPECT_EQ(Line(FullOf(four, Inside(longer)), TimeCause::kPipelineP2p),
            Line(FullOf(four, longer), TimeCause::kPipelineP2p));
}

// A layer has (4 x 4096^2 + 3 x 4096 x 11008) / 2 + 2 x 4096 = 101,195,776 parameters per rank, the
// vocabulary's matrix 65,536,000: the first stage 8 x 101,195,776 + 65,536,000 = 875,102,208, S =
// 3,500,408,832 bytes of gradients, all-reduced by two ranks. Neighbours in a node: 9 us + (S +
// sqrt(S 4.4e6)) / 225 GB/s; in two nodes: (8.4 + 2 x 14) x 40 / 37.8 us + S / 23.75 GB/s.
TEST(RankOrderTest, GradientsLeaveTheNode) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 2);
  problem.profile.bucket_parameters = 1e12;
  const auto reduction = [&](const ParallelPlan& plan) {
    return Line(FullOf(problem, plan), TimeCause::kDataParallel);
  };
  EXPECT_NEAR(reduction(kNodeLong), 0.0161179, 1e-7);
  EXPECT_NEAR(reduction(Inside(kNodeLong)), 0.1474242, 1e-7);
}

// With two directions a device has two stages, and four ranks share the gradients of each. With two
// stages these are devices of a pipeline's node and of the next node, in either order. With four,
// those of the first and the last stage are four devices of one node if they are neighbours,
// otherwise two of each node.
TEST(RankOrderTest, CopiesOfTwoDirectionsLieInThePipeline) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 2);
  problem.profile.bucket_parameters = 1e12;
  const auto reduction = [&](const ParallelPlan& plan) {
    return Line(FullOf(problem, plan), TimeCause::kDataParallel);
  };
  const auto time = [&](const GroupShape& shape) {
    // Each of the two stages has as many bytes as in GradientsLeaveTheNode.
    return 2 * CollectiveTime(CollectiveKind::kAllReduce, RoundedBytes(4 * 875'102'208.0), shape,
                              problem.cluster.pools.front(), problem.cluster.topology)
                   .count();
  };
  ParallelPlan plan = kNodeLong;
  plan.schedule = Schedule::kDualpipe;
  EXPECT_NEAR(reduction(plan), time({4, 1}), 1e-7);
  EXPECT_NEAR(reduction(Inside(plan)), time({2, 2}), 1e-7);
  plan.tensor_parallel = 4;
  plan.pipeline_parallel = 2;
  EXPECT_EQ(reduction(plan), reduction(Inside(plan)));
}

// Two rings four nodes long: neighbouring nodes of one segment, or every second node of two.
TEST(RankOrderTest, GroupsBeyondASegmentAreOversubscribed) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 8);
  problem.profile.bucket_parameters = 1e12;
  problem.cluster.topology = {.nodes_per_segment = 4, .oversubscription_ratio = 2};
  const ParallelPlan plan = {.tensor_parallel = 8, .pipeline_parallel = 2, .data_parallel = 4};
  const auto reduction = [&](const ParallelPlan& own) {
    return Line(FullOf(problem, own), TimeCause::kDataParallel);
  };
  const double near = reduction(plan);
  const double far = reduction(Inside(plan));
  const double latency = (8.4 + 6 * 14) * 40e-6 / 37.8;  // that of the ring, the same for both
  EXPECT_NEAR(far - latency, 2 * (near - latency), 1e-9);
}

// Eight experts of a stage of eight devices: neighbours in one node, or four in each of two.
TEST(RankOrderTest, ExpertsSpreadOverNodes) {
  const OwnedProblem problem = PlainProblem(Mixtral_8x7b(), 2);
  const ParallelPlan plan = {.pipeline_parallel = 2, .data_parallel = 8, .expert_parallel = 8};
  const auto exchange = [&](const ParallelPlan& own) {
    return Line(FullOf(problem, own), TimeCause::kExpertParallel);
  };
  const double tokens =
      4096.0 * problem.model.moe->experts_per_token * problem.model.moe->imbalance_ratio;
  const auto time = [&](const GroupShape& shape) {
    return CollectiveTime(CollectiveKind::kAllToAll,
                          RoundedBytes(2 * tokens * problem.model.hidden_size), shape,
                          problem.cluster.pools.front(), problem.cluster.topology)
        .count();
  };
  // 8 micro-batches of 16 layers, dispatch and return, forward and backward.
  EXPECT_NEAR(exchange(plan), 8 * 16 * 4 * time({8, 1}), 1e-9);
  EXPECT_NEAR(exchange(Inside(plan)), 8 * 16 * 4 * time({4, 2}), 1e-9);
}

struct AlikeCase {
  const char* name;
  int node_count;
  ParallelPlan plan;
};

void PrintTo(const AlikeCase& c, std::ostream* out) { *out << c.name; }

const AlikeCase kAlike[] = {
    {"OneStage", 2, {.data_parallel = 16, .expert_parallel = 8, .zero_stage = 3}},
    {"OneDataRank", 2, {.tensor_parallel = 4, .pipeline_parallel = 4, .expert_parallel = 4}},
    {"OneNode", 1, {.pipeline_parallel = 2, .data_parallel = 4, .expert_parallel = 4}},
    {"BlocksOfWholeNodes",
     8,
     {.tensor_parallel = 8, .pipeline_parallel = 2, .data_parallel = 4, .expert_parallel = 8}},
    {"BlocksOfTwoNodes",
     8,
     {.tensor_parallel = 4,
      .pipeline_parallel = 2,
      .data_parallel = 2,
      .context_parallel = 4,
      .expert_parallel = 8,
      .zero_stage = 1,
      .zero_group_size = 4}},
};

class AlikeTest : public testing::TestWithParam<AlikeCase> {};

TEST_P(AlikeTest, OrdersCostTheSameToTheLastBit) {
  OwnedProblem problem = PlainProblem(Mixtral_8x7b(), GetParam().node_count);
  problem.workload.overlap = {.gradient_reduce = true, .parameter_gather = true};
  problem.profile.host_per_collective_rank_with_pipeline = Seconds(1e-5);
  const Estimate usual = FullOf(problem, GetParam().plan);
  const Estimate inside = FullOf(problem, Inside(GetParam().plan));
  EXPECT_EQ(inside.breakdown, usual.breakdown);
  EXPECT_EQ(inside.step_time, usual.step_time);
  EXPECT_EQ(inside.memory_breakdown, usual.memory_breakdown);
}

INSTANTIATE_TEST_SUITE_P(All, AlikeTest, testing::ValuesIn(kAlike),
                         [](const auto& test) { return std::string(test.param.name); });

// Layers that do not depend on the order, because their experts share a block, are priced once for
// both orders.
TEST(RankOrderTest, LayersArePricedOnceWhereTheyLieAlike) {
  const OwnedProblem problem = PlainProblem(Mixtral_8x7b(), 4);
  AnalyticModel model(problem.View());
  ParallelPlan plan = {
      .tensor_parallel = 2, .pipeline_parallel = 4, .data_parallel = 4, .expert_parallel = 2};
  model.Quick(plan);
  EXPECT_TRUE(PlanBounds(model).LeastTimeIfPriced(Inside(plan)).has_value());
  plan.expert_parallel = 4;
  model.Quick(plan);
  EXPECT_FALSE(PlanBounds(model).LeastTimeIfPriced(Inside(plan)).has_value());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
