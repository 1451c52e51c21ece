#include "estimator/model/data_parallel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <ostream>

#include "estimator/terms/collective.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Llama-2-7B without its final norm, one sequence per micro-batch: m = 64 / 8 = 8 on one node.
constexpr double kParameters = 6'738'415'616.0 - 4096;

// The whole stage is one message, and nothing is overlapped.
OwnedProblem OneMessageProblem(int node_count) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), node_count);
  problem.profile.bucket_parameters = 1e12;
  return problem;
}

double Time(const OwnedProblem& problem, CollectiveKind kind, double bytes,
            const GroupShape& shape) {
  return CollectiveTime(kind, RoundedBytes(bytes), shape, problem.cluster.pools.front(),
                        problem.cluster.topology)
      .count();
}

struct Case {
  const char* name;
  int zero_stage;
  int reductions;  // of gradients, 4 bytes per parameter
  int gathers;     // of weights, 2 bytes
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// ZeRO-0 reduces once per step, ZeRO-1 scatters once and gathers once, ZeRO-2 scatters after each
// of 8 micro-batches, ZeRO-3 also gathers in the forward and the backward pass of each (arXiv
// 1910.02054; FSDP, arXiv 2304.11277).
constexpr Case kCases[] = {
    {"Zero0", 0, 1, 0}, {"Zero1", 1, 1, 1}, {"Zero2", 2, 8, 1}, {"Zero3", 3, 8, 16}};

class TailTest : public testing::TestWithParam<Case> {};

TEST_P(TailTest, WithoutOverlapItIsTheSumOfItsCollectives) {
  const Case& c = GetParam();
  const OwnedProblem problem = OneMessageProblem(1);
  const Estimate estimate = FullOf(problem, {.data_parallel = 8, .zero_stage = c.zero_stage});
  const CollectiveKind reduce =
      c.zero_stage == 0 ? CollectiveKind::kAllReduce : CollectiveKind::kReduceScatter;
  const double expected =
      c.reductions * Time(problem, reduce, 4 * kParameters, {8, 1}) +
      c.gathers * Time(problem, CollectiveKind::kAllGather, 2 * kParameters, {8, 1});
  EXPECT_NEAR(Line(estimate, TimeCause::kDataParallel), expected, 1e-9 * expected);
}

TEST_P(TailTest, OverlapHidesMostOfIt) {
  OwnedProblem problem = OneMessageProblem(1);
  const ParallelPlan plan = {.data_parallel = 8, .zero_stage = GetParam().zero_stage};
  const double bare = Line(FullOf(problem, plan), TimeCause::kDataParallel);
  problem.workload.overlap = {.gradient_reduce = true, .parameter_gather = true};
  const double overlapped = Line(FullOf(problem, plan), TimeCause::kDataParallel);
  EXPECT_LT(overlapped, 0.5 * bare);
  // The profile's share of the last bucket stays visible.
  EXPECT_GE(overlapped, problem.profile.gradient_bucket_exposed_ratio * bare);
}

// A longer window hides no less, and what is exposed never exceeds the whole.
TEST_P(TailTest, ExposedFallsWithTheWindow) {
  OwnedProblem problem = OneMessageProblem(2);
  problem.workload.overlap = {.gradient_reduce = true, .parameter_gather = true};
  problem.workload.global_batch_size = 16;
  const ParallelPlan plan = {.data_parallel = 16, .zero_stage = GetParam().zero_stage};
  double last = 1e9;
  for (int s = 256; s <= 65536; s += 256) {
    problem.workload.sequence_length = s;
    const double exposed = Line(FullOf(problem, plan), TimeCause::kDataParallel);
    EXPECT_LE(exposed, last * (1 + 1e-12)) << s << " tokens";
    last = exposed;
  }
}

// More bytes are never exposed less.
TEST_P(TailTest, ExposedGrowsWithTheBytes) {
  OwnedProblem problem = OneMessageProblem(2);
  problem.workload.overlap = {.gradient_reduce = true, .parameter_gather = true};
  const ParallelPlan plan = {.data_parallel = 16, .zero_stage = GetParam().zero_stage};
  double last = 0;
  for (int step = 0; step < 57; ++step) {  // slower and slower links: 400 x 0.9^56 = 1.1
    const double gigabytes = 400 * std::pow(0.9, step);
    problem.cluster.pools.front().inter_node.nic_bandwidth = {gigabytes * 1e9};
    const double exposed = Line(FullOf(problem, plan), TimeCause::kDataParallel);
    EXPECT_GE(exposed, last * (1 - 1e-12)) << gigabytes << " GB/s";
    last = exposed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TailTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Tail, NothingToReduceOnOneRank) {
  const OwnedProblem problem = OneMessageProblem(1);
  EXPECT_EQ(Line(FullOf(problem, {.tensor_parallel = 8}), TimeCause::kDataParallel), 0);
}

// A sharding group of one node in two: scatter and gather stay inside, the shard is reduced across.
TEST(Tail, ShardingGroupOfOneNode) {
  const OwnedProblem problem = OneMessageProblem(2);
  const Estimate estimate =
      FullOf(problem, {.data_parallel = 16, .zero_stage = 1, .zero_group_size = 8});
  const double expected = Time(problem, CollectiveKind::kReduceScatter, 4 * kParameters, {8, 1}) +
                          Time(problem, CollectiveKind::kAllReduce, 4 * kParameters / 8, {1, 2}) +
                          Time(problem, CollectiveKind::kAllGather, 2 * kParameters, {8, 1});
  EXPECT_NEAR(Line(estimate, TimeCause::kDataParallel), expected, 1e-9 * expected);
}

// A bucket of 80e6 parameters is scattered over 8 ranks, so its shard of 10e6 crosses the nodes.
TEST(Tail, ShardsOfBuckets) {
  OwnedProblem problem = OneMessageProblem(2);
  problem.profile.bucket_parameters = 80e6;
  const Estimate estimate =
      FullOf(problem, {.data_parallel = 16, .zero_stage = 1, .zero_group_size = 8});
  const double buckets = kParameters / 80e6;
  const double expected =
      buckets * (Time(problem, CollectiveKind::kReduceScatter, 4 * 80e6, {8, 1}) +
                 Time(problem, CollectiveKind::kAllReduce, 4 * 10e6, {1, 2}) +
                 Time(problem, CollectiveKind::kAllGather, 2 * 80e6, {8, 1}));
  EXPECT_NEAR(Line(estimate, TimeCause::kDataParallel), expected, 1e-6 * expected);
}

// 8-bit weights are gathered in 8 bits, the vocabulary's 2 x 131,072,000 in 16. MXFP8 scales rows
// and columns separately, so all its weights are gathered in 16 bits.
TEST(Tail, GatherOf8BitWeights) {
  OwnedProblem problem = OneMessageProblem(1);
  problem.workload.precision = Precision::kFp8;
  problem.workload.fp8_recipe = Fp8Recipe::kDelayed;
  problem.profile.fp8_weights_are_kept = true;
  const ParallelPlan plan = {.data_parallel = 8, .zero_stage = 1};
  const auto expected = [&](double gathered) {
    return Time(problem, CollectiveKind::kReduceScatter, 4 * kParameters, {8, 1}) +
           Time(problem, CollectiveKind::kAllGather, gathered, {8, 1});
  };
  EXPECT_NEAR(Line(FullOf(problem, plan), TimeCause::kDataParallel),
              expected(kParameters + 2 * 131'072'000.0), 1e-8);
  problem.workload.fp8_recipe = Fp8Recipe::kMxfp8;
  EXPECT_NEAR(Line(FullOf(problem, plan), TimeCause::kDataParallel), expected(2 * kParameters),
              1e-8);
}

// Every bucket pays its latency: more and smaller messages never take less time.
TEST(Tail, SmallBucketsCostLatency) {
  OwnedProblem problem = OneMessageProblem(2);
  const ParallelPlan plan = {.data_parallel = 16, .zero_stage = 1};
  double last = Line(FullOf(problem, plan), TimeCause::kDataParallel);
  for (const double bucket : {250e6, 40e6, 6.25e6, 250e3}) {
    problem.profile.bucket_parameters = bucket;
    const double time = Line(FullOf(problem, plan), TimeCause::kDataParallel);
    EXPECT_GT(time, last) << bucket;
    last = time;
  }
}

// 30 bytes per parameter that the rank updates and 4 of its gradient, at the copy rate, 0.85 of 2
// TB/s (docs/cost_model/data_parallel.md "Optimizer").
TEST(Optimizer, Traffic) {
  const OwnedProblem problem = OneMessageProblem(1);
  const auto time = [&](int zero_stage) {
    return Line(FullOf(problem, {.data_parallel = 8, .zero_stage = zero_stage}),
                TimeCause::kOptimizer);
  };
  EXPECT_NEAR(time(0), 34 * kParameters / 1.7e12, 1e-9);
  EXPECT_NEAR(time(1), 34.0 / 8 * kParameters / 1.7e12, 1e-9);
  EXPECT_NEAR(time(2), 34.0 / 8 * kParameters / 1.7e12, 1e-9);
}

// The gradient goes to the host and the weight comes back, 4 bytes each over a link of 26 GB/s. All
// devices of a node share its rate, and each domain has its part (docs/cost_model/data_parallel.md
// "Host").
TEST(Optimizer, OnTheHost) {
  OwnedProblem problem = OneMessageProblem(1);
  NodePool& pool = problem.cluster.pools.front();
  const auto time = [&] {
    return Line(
        FullOf(problem, {.data_parallel = 8, .zero_stage = 1, .optimizer_offload_ratio = 1}),
        TimeCause::kOptimizer);
  };
  const double moved = 8 / 26e9 + 4 / 1.7e12;
  pool.host = {.updated_parameters_per_second = 2e9, .numa_domain_count = 2};
  ASSERT_EQ(pool.devices_per_node, 8);
  EXPECT_NEAR(time(), kParameters / 8 * (moved + 8 / 2e9), 1e-6);
  pool.host.updated_parameters_per_second = 4e9;
  EXPECT_NEAR(time(), kParameters / 8 * (moved + 8 / 4e9), 1e-6);
  // A process alone on a node has only its own domain.
  pool.devices_per_node = 1;
  pool.node_count = 8;
  EXPECT_NEAR(time(), kParameters / 8 * (moved + 2 / 4e9), 1e-6);
}

struct WireCase {
  const char* name;
  GradientDtype gradient;
  std::optional<GradientDtype> wire;
  double bytes;  // size of one gradient in its reduction
};

void PrintTo(const WireCase& c, std::ostream* out) { *out << c.name; }

constexpr WireCase kWireCases[] = {
    {"Fp32", GradientDtype::kFp32, {}, 4},
    {"Bf16", GradientDtype::kBf16, {}, 2},
    {"Fp32AsBf16", GradientDtype::kFp32, GradientDtype::kBf16, 2},
    {"Fp32AsFp16", GradientDtype::kFp32, GradientDtype::kFp16, 2},
    {"Bf16AsFp32", GradientDtype::kBf16, GradientDtype::kFp32, 4},
};

class WireTest : public testing::TestWithParam<WireCase> {};

// Only the reduction is sent in another type: what is stored, and the gathered 16-bit weights of
// ZeRO-1, stay as they are.
TEST_P(WireTest, ReductionOnly) {
  const WireCase& c = GetParam();
  OwnedProblem problem = OneMessageProblem(1);
  problem.workload.gradient_dtype = c.gradient;
  const ParallelPlan plan = {.data_parallel = 8, .zero_stage = 1};
  const double stored = Line(FullOf(problem, plan).memory_breakdown, MemoryKind::kGradients);
  problem.profile.gradient_wire_dtype = c.wire;
  const Estimate estimate = FullOf(problem, plan);
  const double expected =
      Time(problem, CollectiveKind::kReduceScatter, c.bytes * kParameters, {8, 1}) +
      Time(problem, CollectiveKind::kAllGather, 2 * kParameters, {8, 1});
  EXPECT_NEAR(Line(estimate, TimeCause::kDataParallel), expected, 1e-9 * expected);
  EXPECT_EQ(Line(estimate.memory_breakdown, MemoryKind::kGradients), stored);
}

// There is no 16-bit copy of the gradients of fp32 training to send.
TEST(Wire, Fp32TrainingSendsFp32) {
  OwnedProblem problem = OneMessageProblem(1);
  problem.workload.precision = Precision::kFp32;
  const ParallelPlan plan = {.data_parallel = 8};
  const double fp32 = Line(FullOf(problem, plan), TimeCause::kDataParallel);
  problem.profile.gradient_wire_dtype = GradientDtype::kBf16;
  EXPECT_EQ(Line(FullOf(problem, plan), TimeCause::kDataParallel), fp32);
}

INSTANTIATE_TEST_SUITE_P(All, WireTest, testing::ValuesIn(kWireCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct MessageCase {
  const char* name;
  int zero_stage;
  double bucket;   // parameters
  double scatter;  // bytes of a message
  double gather;
};

void PrintTo(const MessageCase& c, std::ostream* out) { *out << c.name; }

// A layer of Llama-2-7B has 202,383,360 parameters, 404,766,720 bytes of 16-bit weights and twice
// as many of fp32 gradients: the unit of ZeRO-3, whatever the bucket; the other stages send
// buckets.
constexpr MessageCase kMessageCases[] = {
    {"Zero2Buckets", 2, 10e6, 40e6, 20e6},
    {"Zero3Layers", 3, 10e6, 809'533'440, 404'766'720},
    {"Zero3LargeBuckets", 3, 250e6, 1e9, 500e6},
};

class MessageTest : public testing::TestWithParam<MessageCase> {};

TEST_P(MessageTest, BucketOrLayer) {
  const MessageCase& c = GetParam();
  OwnedProblem problem = OneMessageProblem(2);
  problem.profile.bucket_parameters = c.bucket;
  // 64 sequences on 16 ranks: 4 micro-batches, each scatters 4 bytes per parameter; ZeRO-2 gathers
  // 2 bytes once, ZeRO-3 twice per micro-batch.
  const Estimate estimate = FullOf(problem, {.data_parallel = 16, .zero_stage = c.zero_stage});
  const auto in_messages = [&](CollectiveKind kind, double bytes, double message) {
    return bytes / message * Time(problem, kind, message, {8, 2});
  };
  const double gathers = c.zero_stage == 2 ? 1 : 8;
  const double expected =
      4 * in_messages(CollectiveKind::kReduceScatter, 4 * kParameters, c.scatter) +
      gathers * in_messages(CollectiveKind::kAllGather, 2 * kParameters, c.gather);
  EXPECT_NEAR(Line(estimate, TimeCause::kDataParallel), expected, 1e-7 * expected);
}

INSTANTIATE_TEST_SUITE_P(All, MessageTest, testing::ValuesIn(kMessageCases),
                         [](const auto& test) { return std::string(test.param.name); });

// A bucket grows with its ranks: 16 x 1e6 parameters of 4 bytes are more than 10e6. Where
// nothing is overlapped a framework may send everything at once.
TEST(Tail, BucketsOfAFramework) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 2);
  problem.profile.bucket_parameters = 10e6;
  problem.profile.bucket_parameters_per_rank = 1e6;
  const ParallelPlan plan = {.data_parallel = 16};
  const auto in_messages_of = [&](double message) {
    return 4 * kParameters / message * Time(problem, CollectiveKind::kAllReduce, message, {8, 2});
  };
  EXPECT_NEAR(Line(FullOf(problem, plan), TimeCause::kDataParallel), in_messages_of(64e6), 1e-6);
  problem.profile.buckets_without_overlap = false;
  EXPECT_NEAR(Line(FullOf(problem, plan), TimeCause::kDataParallel),
              in_messages_of(4 * kParameters), 1e-6);
}

// Experts travel over their own ranks: 2 of each 8 here, on ranks {0, 8}, in messages of a layer's
// experts; the dense part has messages of its own. Each of Mixtral's 32 layers has 41,943,040
// parameters in attention, 32,768 in the router, 8,192 in norms and 8 experts of 176,160,768; the
// vocabulary has 2 x 131,072,000 without the final norm.
TEST(Tail, Zero3MessagesOfExpertsAndTheRest) {
  OwnedProblem problem = PlainProblem(Mixtral_8x7b(), 2);
  problem.profile.bucket_parameters = 10e6;
  const double layer = 41'943'040 + 32'768 + 8'192;
  const double dense = 32 * layer + 2 * 131'072'000.0;
  const double experts = 176'160'768;  // e = 8: one per rank and layer
  const ParallelPlan plan = {.data_parallel = 16, .expert_parallel = 8, .zero_stage = 3};
  const auto moved = [&](CollectiveKind kind, double bytes) {
    return dense / layer * Time(problem, kind, bytes * layer, {8, 2}) +
           32 * Time(problem, kind, bytes * experts, {1, 2});
  };
  const double expected =
      4 * (moved(CollectiveKind::kReduceScatter, 4) + 2 * moved(CollectiveKind::kAllGather, 2));
  EXPECT_NEAR(Line(FullOf(problem, plan), TimeCause::kDataParallel), expected, 1e-6 * expected);
}

// The tokens of 8 experts on 16 devices of two nodes pass the NICs that ZeRO-3's messages need: two
// messages each way and pass, of 2 bytes for each of 4096 elements of the two copies of a rank's
// tokens. Where messages are longer than the computation, a second of it hides 0.9 seconds, and a
// hidden second costs the chip's slowdown.
TEST(Tail, ExchangesBetweenNodesLeaveLessToHideBehind) {
  OwnedProblem problem = PlainProblem(Mixtral_8x7b(), 2);
  NodePool& pool = problem.cluster.pools.front();
  pool.inter_node.nic_bandwidth = {1e9};
  ParallelPlan plan = {.tensor_parallel = 2, .data_parallel = 8, .expert_parallel = 8};
  plan.expert_tensor_parallel = 2;
  plan.zero_stage = 3;
  plan.sequence_parallel = true;
  const double bare = Line(FullOf(problem, plan), TimeCause::kDataParallel);
  problem.workload.overlap = {.gradient_reduce = true, .parameter_gather = true};
  const Estimate estimate = FullOf(problem, plan);
  const double exposed = Line(estimate, TimeCause::kDataParallel);
  const double bytes = 2.0 * 4096 * problem.workload.sequence_length;  // of half of the tokens
  const double exchange = 4 * 32 * (problem.workload.global_batch_size / 8) *
                          Time(problem, CollectiveKind::kAllToAll, bytes, {4, 2});
  const double pipeline = estimate.step_time.count() - exposed -
                          Line(estimate, TimeCause::kOptimizer) - Line(estimate, TimeCause::kFixed);
  ASSERT_GT(exchange, 0.1 * pipeline);
  const double hidden = 0.9 * (pipeline - exchange);
  ASSERT_LT(hidden, 0.9 * bare);
  EXPECT_NEAR(exposed, bare - (1 - pool.chip.overlap_slowdown) * hidden, 1e-6 * bare);
}

// Each of v chunks waits for p micro-batches of the others, so longer messages run beside (p (v -
// 1) + 1) / v micro-batches: 1, 2.5 and 3.25 for 1, 2 and 4 chunks of 4 stages.
TEST(Tail, ChunksThatSynchroniseApart) {
  OwnedProblem problem = OneMessageProblem(2);
  problem.workload.overlap = {.gradient_reduce = true, .parameter_gather = true};
  problem.cluster.pools.front().intra_node.bandwidth = {4e9};
  const auto exposed = [&](int chunks, int zero_stage) {
    const Schedule schedule = chunks > 1 ? Schedule::kInterleaved1f1b : Schedule::k1f1b;
    return Line(FullOf(problem, {.pipeline_parallel = 4,
                                 .virtual_pipeline = chunks,
                                 .data_parallel = 4,
                                 .micro_batch_size = 2,
                                 .zero_stage = zero_stage,
                                 .schedule = schedule}),
                TimeCause::kDataParallel);
  };
  EXPECT_NEAR(exposed(2, 1), exposed(1, 1), 1e-9);  // not this framework
  problem.profile.syncs_chunk_by_chunk = true;
  const double saved = exposed(1, 1) - exposed(2, 1);
  EXPECT_GT(saved, 0);
  EXPECT_NEAR(saved / (exposed(2, 1) - exposed(4, 1)), 1.5 / 0.75, 1e-6);
  EXPECT_GT(exposed(1, 2), exposed(2, 2));  // the gather of ZeRO-2, once per step
  EXPECT_NEAR(exposed(1, 3), exposed(2, 3), 1e-9);
}

// The messages of the first and last chunk have only their own window: in a wide window a chunk's
// share stays visible, except for its share of a micro-batch.
TEST(Tail, OneChunksMessagesStayVisible) {
  OwnedProblem problem = OneMessageProblem(2);
  problem.profile.syncs_chunk_by_chunk = true;
  problem.profile.gradient_bucket_exposed_ratio = 0;
  problem.workload.overlap = {.gradient_reduce = true};
  const ParallelPlan plan = {.pipeline_parallel = 4,
                             .virtual_pipeline = 2,
                             .data_parallel = 4,
                             .schedule = Schedule::kInterleaved1f1b};
  problem.cluster.pools.front().intra_node.bandwidth = {50e9};
  const double exposed = Line(FullOf(problem, plan), TimeCause::kDataParallel);
  problem.workload.overlap = {};
  const double whole = Line(FullOf(problem, plan), TimeCause::kDataParallel);
  EXPECT_GT(exposed, 0.1 * whole);  // although the window covers all of it
}

// Buckets with an owner are reduced when full: a share of 6.7e9 / 8 parameters fills one of 0.5e9,
// not one of 1e9.
TEST(Tail, BucketsWithOwners) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.workload.overlap = {.gradient_reduce = true, .parameter_gather = true};
  const auto exposed = [&](double bucket, bool has_owner) {
    problem.profile.bucket_parameters = bucket;
    problem.profile.buckets_have_owners = has_owner;
    return Line(FullOf(problem, {.data_parallel = 8, .zero_stage = 1}), TimeCause::kDataParallel);
  };
  EXPECT_EQ(exposed(0.5e9, true), exposed(0.5e9, false));
  EXPECT_GT(exposed(1e9, true), exposed(1e9, false));
}

// Each of sixteen owners sends its share of the weights, one after another, while all gradients are
// scattered in one bucket.
TEST(Tail, OwnersSendTheirWeightsOneByOne) {
  OwnedProblem problem = OneMessageProblem(2);
  problem.profile.buckets_have_owners = true;
  const double both = Time(problem, CollectiveKind::kReduceScatter, 4 * kParameters, {8, 2}) +
                      16 * Time(problem, CollectiveKind::kAllGather, 2 * kParameters / 16, {8, 2});
  EXPECT_NEAR(
      Line(FullOf(problem, {.data_parallel = 16, .zero_stage = 1}), TimeCause::kDataParallel), both,
      1e-6 * both);
}

// Two directions: each device has two stages, each for half of the micro-batches, and the copies of
// a stage on two devices double its ranks. All stages of a model without vocabulary are alike:
// twice the weights of 1F1B, over twice the ranks.
TEST(Tail, TwoDirections) {
  OwnedProblem problem = OneMessageProblem(1);
  const auto line = [&](Schedule schedule, int zero_stage) {
    return Line(FullOf(problem, {.pipeline_parallel = 2,
                                 .data_parallel = 4,
                                 .zero_stage = zero_stage,
                                 .schedule = schedule}),
                TimeCause::kDataParallel);
  };
  // Both stages once, over 8 ranks: 4 bytes per parameter are scattered, 2 gathered.
  const double both =
      Time(problem, CollectiveKind::kReduceScatter, 4 * kParameters / 2, {8, 1}) * 2 +
      Time(problem, CollectiveKind::kAllGather, 2 * kParameters / 2, {8, 1}) * 2;
  EXPECT_NEAR(line(Schedule::kDualpipe, 1), both, 1e-6 * both);
  EXPECT_LT(line(Schedule::kDualpipe, 2), 1.5 * line(Schedule::k1f1b, 2));
}

// Recomputation is a window too if the only stage both recomputes and waits.
TEST(Tail, RecomputationHidesOnOneStage) {
  OwnedProblem problem = OneMessageProblem(2);
  problem.workload.overlap = {.gradient_reduce = true, .parameter_gather = true};
  problem.cluster.pools.front().inter_node.nic_bandwidth = {4e9};
  const auto exposed = [&](int stages, RecomputeGranularity granularity) {
    const ParallelPlan plan = {.tensor_parallel = 16 / stages / 8,
                               .pipeline_parallel = stages,
                               .data_parallel = 8,
                               .zero_stage = 1,
                               .recompute = {.granularity = granularity}};
    return Line(FullOf(problem, plan), TimeCause::kDataParallel);
  };
  EXPECT_LT(exposed(1, RecomputeGranularity::kFull), exposed(1, RecomputeGranularity::kNone));
  EXPECT_GE(exposed(2, RecomputeGranularity::kFull),
            exposed(2, RecomputeGranularity::kNone) * (1 - 1e-9));
}

// A host-bound step with slow reductions: recomputation adds no more to the window than it adds to
// the step.
TEST(Tail, RecomputationNeverShortensAHostBoundStep) {
  OwnedProblem problem = OneMessageProblem(2);
  problem.workload.overlap = {.gradient_reduce = true, .parameter_gather = true};
  problem.workload.attention_kernel = AttentionKernel::kUnfused;
  problem.cluster.pools.front().inter_node.nic_bandwidth = {2e9};
  for (const double launch : {1e-6, 1e-5, 1e-4, 1e-3}) {
    problem.profile.host_per_launch = Seconds(launch);
    for (const int zero : {0, 1, 2, 3}) {
      ParallelPlan plan = {.data_parallel = 16, .zero_stage = zero};
      const Seconds none = FullOf(problem, plan).step_time;
      for (const auto granularity :
           {RecomputeGranularity::kSelective, RecomputeGranularity::kFull}) {
        plan.recompute.granularity = granularity;
        EXPECT_GE(FullOf(problem, plan).step_time, none) << launch << " zero" << zero;
      }
    }
  }
}

TEST(Optimizer, AtTheCopyRate) {
  OwnedProblem problem = OneMessageProblem(1);
  problem.cluster.pools.front().chip.stream_efficiency = 0.75;
  EXPECT_NEAR(Line(FullOf(problem, {.data_parallel = 8}), TimeCause::kOptimizer),
              34 * kParameters / 1.5e12, 1e-9);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
