#include "estimator/layer/layer_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "estimator/terms/collective.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/matmul.h"
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

// PlainPool with 64 cores of 1e12 FLOP/s each, whose tiles and waves lose nothing and whose memory
// is never the limit: a GEMM of m = n = k = 2048 takes 2 x 2048^3 / 64e12 = 268.435456 us, each of
// the two of its backward pass the same.
OwnedProblem ExactProblem(int node_count) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), node_count);
  problem.workload.gradient_dtype = GradientDtype::kBf16;  // no charge of fp32 sums
  problem.profile.host_per_launch = Seconds(0);
  ChipSpec& chip = problem.cluster.pools.front().chip;
  chip.core_count = 64;
  chip.peak = {{Precision::kBf16, {64e12}}};
  chip.memory_bandwidth = {1e18};
  chip.sustained_time_ratio = 1;
  chip.memory_bound_fixed = Seconds(0);
  chip.gemm = {.compute_efficiency = 1,
               .memory_efficiency = 1,
               .fixed = Seconds(0),
               .intensity_half = 0,
               .fill = 0,
               .quantisation = 1,
               .norm_exponent = 8,
               .split_k = Seconds(1)};
  return problem;
}

constexpr double kCube = 268.435456e-6;

Kernel Cube() { return Matmul("cube", {.m = 2048, .n = 2048, .k = 2048}, 0, 0); }

LayerTime Price(const LayerProgram& program, const OwnedProblem& problem,
                const LayerSharding& sharding) {
  const NodePool& pool = problem.cluster.pools.front();
  MatmulTimes matmuls(pool.chip, RatesOf(pool, problem.workload));
  return PriceProgram(program,
                      {.model = problem.model,
                       .workload = problem.workload,
                       .profile = problem.profile,
                       .sharding = sharding},
                      PlaceLayer(sharding, pool, problem.cluster.topology, matmuls), 0,
                      std::nullopt);
}

double Of(const PassTime& pass, TimeCause cause) {
  return pass.by_cause[static_cast<std::size_t>(cause)].count();
}

struct BesideCase {
  const char* name;
  std::int64_t bytes;
  int collectives;
  LayerSharding sharding;
  double expected;  // seconds of the backward pass
};

void PrintTo(const BesideCase& c, std::ostream* out) { *out << c.name; }

// An all-reduce among 8 ranks of PlainPool moves x = 2 x 7/8 S in 21 us + (x + sqrt(x 4.4 MB)) /
// 225 GB/s (docs/cost_model/collectives.md): 118.1047 us for 8 MB, 617.4404 us for 64 MB,
// 1156.0856 us for 128 MB. A backward pass has two of them, one beside GEMMs. 7/12 of 2 x 268.4355
// = 536.8709 us, 313.1747 us, belong to the first linear layers of the blocks, and half of that to
// weight gradients.
constexpr LayerSharding kTensor8 = {.tensor_parallel = 8};
constexpr BesideCase kBesideCases[] = {
    // max(118.1047 / 4 = 29.5262, 118.1047 - 156.5873 < 0) + 118.1047
    {"QuarterStaysVisible", 8'000'000, 1, kTensor8, 147.6309e-6},
    // max(617.4404 / 4 = 154.3601, 617.4404 - 156.5873 = 460.8531) + 617.4404
    {"LongerThanTheRoom", 64'000'000, 1, kTensor8, 1078.2935e-6},
    // Two share the room: 2 x (1156.0856 - 78.2937 + 1156.0856)
    {"RoomIsShared", 128'000'000, 2, kTensor8, 4467.7551e-6},
    // The gather of the input runs beside the input's gradient: 617.4404 - 313.1747 + 617.4404
    {"SequenceParallel",
     64'000'000,
     1,
     {.tensor_parallel = 8, .sequence_parallel = true},
     921.7061e-6},
};

class BesideGemmTest : public testing::TestWithParam<BesideCase> {};

TEST_P(BesideGemmTest, Visible) {
  const BesideCase& c = GetParam();
  LayerProgram program = {.kernels = {Cube()}};
  for (int i = 0; i < c.collectives; ++i) {
    program.collectives.push_back(
        {.bytes = {c.bytes}, .forward_count = 1, .backward_count = 2, .backward_beside_gemm = 1});
  }
  const OwnedProblem problem = ExactProblem(1);
  const LayerTime time = Price(program, problem, c.sharding);
  EXPECT_NEAR(Of(time.backward, TimeCause::kMatmul), 2 * kCube, 1e-12);
  EXPECT_NEAR(Of(time.backward, TimeCause::kTensorParallel), c.expected, 1e-10);
  // The forward pass hides nothing.
  const double once = CollectiveTime(CollectiveKind::kAllReduce, {c.bytes}, {8, 1},
                                     problem.cluster.pools.front(), problem.cluster.topology)
                          .count();
  EXPECT_NEAR(Of(time.forward, TimeCause::kTensorParallel), c.collectives * once, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(All, BesideGemmTest, testing::ValuesIn(kBesideCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Exactly the kernels of the routed experts are marked, also with one expert per rank.
TEST(Experts, KernelsOfTheirOwn) {
  const OwnedProblem problem = PlainProblem(Mixtral_8x7b(), 1);
  for (const int experts : {1, 8}) {
    int count = 0;
    for (const Kernel& kernel : LayerOf(problem, {.expert_parallel = experts}, true).kernels) {
      count += kernel.is_expert ? 1 : 0;
    }
    EXPECT_EQ(count, 3) << experts;  // up, activation, down
  }
}

// A routed expert, even a single one, gives a collective of the dense layers no room.
TEST(BesideGemm, ExpertsGiveNoRoom) {
  LayerProgram program = {.kernels = {Cube()},
                          .collectives = {{.bytes = {64'000'000},
                                           .forward_count = 1,
                                           .backward_count = 2,
                                           .backward_beside_gemm = 1}}};
  const OwnedProblem problem = ExactProblem(1);
  const auto visible = [&] {
    return Of(Price(program, problem, kTensor8).backward, TimeCause::kTensorParallel);
  };
  const double alone = visible();
  program.kernels.push_back(Cube());
  program.kernels.back().is_expert = true;
  EXPECT_EQ(visible(), alone);
  program.kernels.back().is_expert = false;
  EXPECT_LT(visible(), alone);
}

// A collective that is hidden in both passes is not hidden once more beside its own GEMM. The two
// of the backward pass share 536.8709 us, so 617.4404 - 268.4355 = 349.0050 us of each stay
// visible, and as much beside the single GEMM of the forward pass.
TEST(BesideGemm, HiddenInBothPasses) {
  const LayerProgram program = {.kernels = {Cube()},
                                .collectives = {{.bytes = {64'000'000},
                                                 .forward_count = 1,
                                                 .backward_count = 2,
                                                 .hidden_by_compute = true,
                                                 .backward_beside_gemm = 1}}};
  const LayerTime time = Price(program, ExactProblem(1), {.tensor_parallel = 8});
  EXPECT_NEAR(Of(time.forward, TimeCause::kTensorParallel), 349.0050e-6, 1e-10);
  EXPECT_NEAR(Of(time.backward, TimeCause::kTensorParallel), 2 * 349.0050e-6, 2e-10);
}

struct CastCase {
  Fp8Recipe recipe;
  double bytes;  // an element
};

// A cast reads 2 bytes and writes 1 twice, and reads 2 more if it needs the tensor's own scale. For
// a 2048 x 1024 x 512 product (n = 1024, k = 512) the forward pass casts the input and the weights,
// the backward pass the output's gradient; weights that are kept are not cast again.
TEST(Fp8, Casts) {
  OwnedProblem problem = ExactProblem(1);
  ChipSpec& chip = problem.cluster.pools.front().chip;
  chip.peak[Precision::kFp8] = {1e30};  // products take no time
  chip.memory_bandwidth = {1e12};
  chip.gemm.memory_efficiency = 1e12;
  chip.memory_bound_efficiency = 1;
  chip.cache = {};
  problem.workload.precision = Precision::kFp8;
  const LayerProgram program = {
      .kernels = {Matmul("product", {.m = 2048, .n = 1024, .k = 512}, 0, 0)}};
  constexpr double kInput = 2048 * 512;
  constexpr double kWeights = 1024 * 512;
  constexpr double kOutput = 2048 * 1024;
  for (const CastCase& c : {CastCase{Fp8Recipe::kDelayed, 4}, CastCase{Fp8Recipe::kTensorwise, 6},
                            CastCase{Fp8Recipe::kRowwise, 6}, CastCase{Fp8Recipe::kBlockwise, 4},
                            CastCase{Fp8Recipe::kMxfp8, 4}}) {
    problem.workload.fp8_recipe = c.recipe;
    problem.profile.fp8_weights_are_kept = false;
    const LayerTime each = Price(program, problem, {});
    EXPECT_NEAR(Of(each.forward, TimeCause::kMatmul), c.bytes * (kInput + kWeights) / 1e12, 1e-9);
    EXPECT_NEAR(Of(each.backward, TimeCause::kMatmul), c.bytes * kOutput / 1e12, 1e-9);
    problem.profile.fp8_weights_are_kept = true;
    const LayerTime kept = Price(program, problem, {});
    EXPECT_NEAR(Of(kept.forward, TimeCause::kMatmul), c.bytes * kInput / 1e12, 1e-9);
  }
}

struct PowerCase {
  const char* name;
  double usual_watts;
  double site_watts;
  double expected;
};

void PrintTo(const PowerCase& c, std::ostream* out) { *out << c.name; }

// The clock follows the cube root of the power.
constexpr PowerCase kPowerCases[] = {
    {"Usual", 400, 400, 1},
    {"Eighth", 400, 50, 2},  // 8^(1/3)
    {"SiteUnknown", 400, 0, 1},
    {"UsualUnknown", 0, 300, 1},
    {"ThreeQuarters", 400, 300, 1.100642},
    {"AboveUsual", 400, 10000, 1},  // the clock does not rise
};

class PowerTest : public testing::TestWithParam<PowerCase> {};

TEST_P(PowerTest, TimeRatio) {
  NodePool pool = PlainPool(1);
  pool.chip.power_limit_watts = GetParam().usual_watts;
  pool.power_limit_watts = GetParam().site_watts;
  EXPECT_NEAR(RatesOf(pool, {}).power_time_ratio, GetParam().expected, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, PowerTest, testing::ValuesIn(kPowerCases),
                         [](const auto& test) { return std::string(test.param.name); });

// An eighth of the power: products take twice their time, what memory or a link limits the same.
TEST(Power, SlowsProductsOnly) {
  LayerProgram program = {.kernels = {Cube(), MemoryBound("stream", 1e9, 2e9)},
                          .collectives = {{.bytes = {64'000'000}, .forward_count = 1}}};
  Kernel attention = {.name = "attention", .kind = KernelKind::kAttention};
  attention.attention = {
      .batch = 1, .heads = 32, .head_dim = 128, .query_tokens = 4096, .key_tokens = 4096};
  program.kernels.push_back(attention);
  OwnedProblem problem = ExactProblem(1);
  problem.cluster.pools.front().chip.power_limit_watts = 400;
  const LayerTime usual = Price(program, problem, {.tensor_parallel = 8});
  problem.cluster.pools.front().power_limit_watts = 50;
  const LayerTime slow = Price(program, problem, {.tensor_parallel = 8});
  EXPECT_NEAR(Of(usual.forward, TimeCause::kMatmul), kCube, 1e-12);
  for (const auto pass : {&LayerTime::forward, &LayerTime::backward}) {
    const auto ratio = [&](TimeCause cause) {
      return Of(slow.*pass, cause) / Of(usual.*pass, cause);
    };
    EXPECT_NEAR(ratio(TimeCause::kMatmul), 2, 1e-9);
    EXPECT_NEAR(ratio(TimeCause::kAttention), 2, 1e-9);
    EXPECT_EQ(ratio(TimeCause::kMemoryBound), 1);
  }
  EXPECT_EQ(Of(slow.forward, TimeCause::kTensorParallel),
            Of(usual.forward, TimeCause::kTensorParallel));
}

struct LatencyCase {
  const char* name;
  CommunicationGroup group;
  TimeCause cause;
  LayerSharding sharding;
  int further_nodes;
};

void PrintTo(const LatencyCase& c, std::ostream* out) { *out << c.name; }

constexpr LatencyCase kLatencyCases[] = {
    {"InNode", CommunicationGroup::kTensor, TimeCause::kTensorParallel, {.tensor_parallel = 8}, 0},
    {"TwoNodes",
     CommunicationGroup::kTensor,
     TimeCause::kTensorParallel,
     {.tensor_parallel = 16},
     1},
    {"FourNodes",
     CommunicationGroup::kTensor,
     TimeCause::kTensorParallel,
     {.tensor_parallel = 32},
     3},
    // 4 context ranks, 8 devices apart.
    {"Context",
     CommunicationGroup::kContext,
     TimeCause::kContextParallel,
     {.tensor_parallel = 8, .context_parallel = 4},
     3},
    {"Experts",
     CommunicationGroup::kExpert,
     TimeCause::kExpertParallel,
     {.expert_parallel = 16},
     1},
};

class NodeLatencyTest : public testing::TestWithParam<LatencyCase> {};

// 50 us of the device for each further node of the group, one collective forward and two backward.
TEST_P(NodeLatencyTest, OfEveryCollective) {
  const LatencyCase& c = GetParam();
  const LayerProgram program = {
      .collectives = {
          {.group = c.group, .bytes = {64'000'000}, .forward_count = 1, .backward_count = 2}}};
  OwnedProblem problem = ExactProblem(4);
  const LayerTime usual = Price(program, problem, c.sharding);
  problem.profile.collective_latency_per_node = Seconds(50e-6);
  const LayerTime late = Price(program, problem, c.sharding);
  EXPECT_NEAR(Of(late.forward, c.cause) - Of(usual.forward, c.cause), 50e-6 * c.further_nodes,
              1e-12);
  EXPECT_NEAR(Of(late.backward, c.cause) - Of(usual.backward, c.cause), 2 * 50e-6 * c.further_nodes,
              1e-12);
  EXPECT_EQ(late.forward.host.count(), 0);  // no pipeline across nodes
}

INSTANTIATE_TEST_SUITE_P(All, NodeLatencyTest, testing::ValuesIn(kLatencyCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct HostCase {
  const char* name;
  CommunicationGroup group;
  LayerSharding sharding;
  double expected;  // seconds of one collective
};

void PrintTo(const HostCase& c, std::ostream* out) { *out << c.name; }

// 5 us per rank of a tensor-parallel group and 50 us per further node, if a pipeline crosses nodes.
constexpr HostCase kHostCases[] = {
    {"NoPipeline", CommunicationGroup::kTensor, {.tensor_parallel = 8}, 0},
    {"PipelineInNode",
     CommunicationGroup::kTensor,
     {.tensor_parallel = 4, .is_pipelined = true},
     0},
    {"PipelineAcrossNodes",
     CommunicationGroup::kTensor,
     {.tensor_parallel = 8, .is_pipelined = true, .pipeline_leaves_node = true},
     8 * 5e-6},
    {"GroupAcrossNodes",
     CommunicationGroup::kTensor,
     {.tensor_parallel = 16, .is_pipelined = true, .pipeline_leaves_node = true},
     16 * 5e-6 + 50e-6},
    {"OtherGroup",
     CommunicationGroup::kContext,
     {.context_parallel = 8, .is_pipelined = true, .pipeline_leaves_node = true},
     0},
};

class CollectiveHostTest : public testing::TestWithParam<HostCase> {};

TEST_P(CollectiveHostTest, BesideThePipeline) {
  const HostCase& c = GetParam();
  const LayerProgram program = {
      .collectives = {
          {.group = c.group, .bytes = {64'000'000}, .forward_count = 1, .backward_count = 2}}};
  OwnedProblem problem = ExactProblem(4);
  problem.profile.host_per_collective_rank_with_pipeline = Seconds(5e-6);
  problem.profile.collective_latency_per_node = Seconds(50e-6);
  problem.profile.host_backward_ratio = 0.8;
  const LayerTime time = Price(program, problem, c.sharding);
  EXPECT_NEAR(time.forward.host.count(), c.expected, 1e-12);
  EXPECT_NEAR(time.backward.host.count(), 2 * 0.8 * c.expected, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveHostTest, testing::ValuesIn(kHostCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct PlanCase {
  const char* name;
  int node_count;
  ParallelPlan plan;
  bool is_slower;
};

void PrintTo(const PlanCase& c, std::ostream* out) { *out << c.name; }

const PlanCase kPlanCases[] = {
    {"PipelineInNode", 1, {.tensor_parallel = 4, .pipeline_parallel = 2}, false},
    {"NoPipeline", 2, {.tensor_parallel = 8, .data_parallel = 2}, false},
    {"NoTensorParallel", 2, {.pipeline_parallel = 2, .data_parallel = 8}, false},
    {"PipelineAcrossNodes", 2, {.tensor_parallel = 8, .pipeline_parallel = 2}, true},
};

class PipelineHostTest : public testing::TestWithParam<PlanCase> {};

// The host fact matters only if the plan has a pipeline and the cluster several nodes.
TEST_P(PipelineHostTest, ByPlan) {
  const PlanCase& c = GetParam();
  OwnedProblem problem = PlainProblem(Llama2_7b(), c.node_count);
  const Seconds usual = FullOf(problem, c.plan).step_time;
  problem.profile.host_per_collective_rank_with_pipeline = Seconds(1e-3);
  const Seconds step = FullOf(problem, c.plan).step_time;
  if (c.is_slower) {
    EXPECT_GT(step, 1.1 * usual);
  } else {
    EXPECT_EQ(step, usual);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PipelineHostTest, testing::ValuesIn(kPlanCases),
                         [](const auto& test) { return std::string(test.param.name); });

// The GEMM of a weight gradient pays for fp32 sums (6 %) if it adds to them itself.
TEST(PriceProgram, Fp32SumsAreChargedOnce) {
  OwnedProblem problem = ExactProblem(1);
  problem.workload.gradient_dtype = GradientDtype::kFp32;
  const LayerProgram program = {.kernels = {Cube()}};
  EXPECT_NEAR(Price(program, problem, {}).backward.device.count(), 2.06 * kCube, 1e-12);
  problem.profile.gradient_accumulation_is_fused = false;
  EXPECT_NEAR(Price(program, problem, {}).backward.device.count(), 2 * kCube, 1e-12);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
