#include "estimator/model/memory.h"

#include <gtest/gtest.h>

#include <ostream>

#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Returns the bytes of states on a device: weights, gradients, optimizer.
double States(const Estimate& estimate) {
  return Line(estimate.memory_breakdown, MemoryKind::kWeights) +
         Line(estimate.memory_breakdown, MemoryKind::kGradients) +
         Line(estimate.memory_breakdown, MemoryKind::kOptimizerStates);
}

// Llama-2-7B without its final norm.
constexpr double kParameters = 6'738'415'616.0 - 4096;

struct ZeroCase {
  const char* name;
  int zero_stage;
  int zero_group;
  double bytes_per_parameter;
};

void PrintTo(const ZeroCase& c, std::ostream* out) { *out << c.name; }

// Megatron Core's distributed-optimizer page: 18 bytes (2 weight, 4 gradient, 12 fp32 master and
// moments), or 6 + 12/d; ZeRO-2 divides the gradient too, ZeRO-3 all (arXiv 1910.02054, figure 1).
// d = 8; a sharding group of 4 divides by 4.
constexpr ZeroCase kZeroCases[] = {
    {"Zero0", 0, 0, 18},       {"Zero1", 1, 0, 6 + 12.0 / 8},      {"Zero2", 2, 0, 2 + 16.0 / 8},
    {"Zero3", 3, 0, 18.0 / 8}, {"Zero1Over4", 1, 4, 6 + 12.0 / 4}, {"Zero3Over4", 3, 4, 18.0 / 4},
};

class StaticMemoryTest : public testing::TestWithParam<ZeroCase> {};

TEST_P(StaticMemoryTest, BytesPerParameter) {
  const ZeroCase& c = GetParam();
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  const Estimate estimate = FullOf(
      problem, {.data_parallel = 8, .zero_stage = c.zero_stage, .zero_group_size = c.zero_group});
  EXPECT_NEAR(States(estimate), c.bytes_per_parameter * kParameters, 3);  // three rounded lines
}

INSTANTIATE_TEST_SUITE_P(All, StaticMemoryTest, testing::ValuesIn(kZeroCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Context parallelism shares dense states as data parallelism does (D = d_p c).
TEST(StaticMemory, ContextRanksShareStates) {
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  const Estimate estimate =
      FullOf(problem, {.data_parallel = 4, .context_parallel = 2, .zero_stage = 1});
  EXPECT_NEAR(States(estimate), (6 + 12.0 / 8) * kParameters, 3);
}

// Experts are shared by D_e = N / (p e x) ranks only: Mixtral, d = 8, e = 4 leaves D_e = 2.
//   dense part 2 * 32000 * 4096 + 32 layers (41,943,040 attention + 32,768 router + 8,192 norms)
//   experts 32 * 8 * 3 * 4096 * 14336 / 4
TEST(StaticMemory, ExpertsHaveTheirOwnGroup) {
  const OwnedProblem problem = PlainProblem(Mixtral_8x7b(), 1);
  const Estimate estimate =
      FullOf(problem, {.data_parallel = 8, .expert_parallel = 4, .zero_stage = 1});
  const double dense = 2.0 * 32000 * 4096 + 32 * (41'943'040.0 + 32'768 + 8'192);
  const double experts = 32.0 * 8 * 3 * 4096 * 14336 / 4;
  EXPECT_NEAR(States(estimate), dense * (6 + 12.0 / 8) + experts * (6 + 12.0 / 2), 3);
}

struct StateCase {
  const char* name;
  Precision precision;
  GradientDtype gradient;
  Optimizer optimizer;
  double weight_bytes;  // per parameter
  double gradient_bytes;
  double optimizer_bytes;
};

void PrintTo(const StateCase& c, std::ostream* out) { *out << c.name; }

constexpr StateCase kStateCases[] = {
    {"Adam", Precision::kBf16, GradientDtype::kFp32, Optimizer::kAdam, 2, 4, 12},
    {"Adam16BitGradients", Precision::kBf16, GradientDtype::kBf16, Optimizer::kAdam, 2, 2, 12},
    {"Adam8Bit", Precision::kBf16, GradientDtype::kFp32, Optimizer::kAdam8bit, 2, 4, 6},
    {"Momentum", Precision::kBf16, GradientDtype::kFp32, Optimizer::kSgd, 2, 4, 8},
    // fp32 weights are their own master copy.
    {"Fp32", Precision::kFp32, GradientDtype::kFp32, Optimizer::kAdam, 4, 4, 8},
};

class StateBytesTest : public testing::TestWithParam<StateCase> {};

TEST_P(StateBytesTest, OfAParameter) {
  const StateCase& c = GetParam();
  const Workload workload = {
      .precision = c.precision, .optimizer = c.optimizer, .gradient_dtype = c.gradient};
  const StateBytes bytes = BytesPerParameter(workload, {});
  EXPECT_EQ(bytes.weight, c.weight_bytes);
  EXPECT_EQ(bytes.gradient, c.gradient_bytes);
  EXPECT_EQ(bytes.optimizer, c.optimizer_bytes);
}

INSTANTIATE_TEST_SUITE_P(All, StateBytesTest, testing::ValuesIn(kStateCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Memory, OffloadedStatesLeaveTheDevice) {
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  const Estimate estimate =
      FullOf(problem, {.data_parallel = 8, .zero_stage = 1, .optimizer_offload_ratio = 0.75});
  EXPECT_NEAR(Line(estimate.memory_breakdown, MemoryKind::kOptimizerStates),
              12 * 0.25 / 8 * kParameters, 1);
}

// Two gathered layers and one gathered gradient, 2 * 2 + 4 bytes of a layer's 202,383,360
// parameters, and a gathered vocabulary matrix, 2 * 32000 * 4096 bytes.
TEST(Memory, Zero3GathersLayers) {
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  const auto transient = [&](int zero_stage) {
    return Line(FullOf(problem, {.data_parallel = 8, .zero_stage = zero_stage}).memory_breakdown,
                MemoryKind::kTransient);
  };
  EXPECT_NEAR(transient(3) - transient(2), 8 * 202'383'360.0 + 2 * 32000.0 * 4096, 1);
}

// Formula 4, h = 4096, f = 11008, V = 32000, n = 4096, t = 1: a layer's n (2h + 6f) = 304 MB; the
// head's n (4h + 6V + 2h) with separate loss kernels (6 bytes per logit), n (4h + 2V + 2h) fused.
TEST(Memory, TransientOfTheHead) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.workload.cross_entropy_kernel = KernelFusion::kUnfused;
  const auto transient = [&] {
    return Line(FullOf(problem, {}).memory_breakdown, MemoryKind::kTransient);
  };
  EXPECT_DOUBLE_EQ(transient(), 4096.0 * (6 * 4096 + 6 * 32000));
  problem.workload.cross_entropy_kernel = KernelFusion::kFused;
  EXPECT_DOUBLE_EQ(transient(), 4096.0 * (6 * 4096 + 2 * 32000));
  problem.model.ffn_hidden_size = 40000;  // now the layer is larger
  EXPECT_DOUBLE_EQ(transient(), 4096.0 * (2 * 4096 + 6 * 40000.0));
}

// 2 bytes of each distinct matrix of a layer, 202,375,168 elements, and of the output layer.
TEST(Memory, CachedWeightGradients) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.profile.caches_weight_gradients = true;
  EXPECT_DOUBLE_EQ(Line(FullOf(problem, {}).memory_breakdown, MemoryKind::kFrameworkCache),
                   2 * (202'375'168.0 + 32000.0 * 4096));
}

// reserved = peak + (1 / 0.96 - 1) x what is not states + context 1.2 GiB + buffers 0.4 GiB in a
// node + 1.0 GiB across nodes.
TEST(Memory, Reserved) {
  const double gib = 1073741824;
  const Estimate one = FullOf(PlainProblem(Llama2_7b(), 1), {.data_parallel = 8});
  const auto expected = [&](const Estimate& e, double buffers_gib) {
    const double moving = Line(e.memory_breakdown, MemoryKind::kActivations) +
                          Line(e.memory_breakdown, MemoryKind::kTransient);
    return static_cast<double>(e.peak_memory.count) + (1 / 0.96 - 1) * moving + buffers_gib * gib;
  };
  EXPECT_NEAR(static_cast<double>(one.reserved_memory.count), expected(one, 1.6), 3);
  const Estimate two = FullOf(PlainProblem(Llama2_7b(), 2), {.data_parallel = 16});
  EXPECT_NEAR(static_cast<double>(two.reserved_memory.count), expected(two, 2.6), 4);
}

struct FlightCase {
  const char* name;
  Schedule schedule;
  int index;
  int stages;
  int virtual_stages;
  int micro_batches;
  double expected;
};

void PrintTo(const FlightCase& c, std::ostream* out) { *out << c.name; }

// 1F1B: min(m, p - i). Interleaved: min(m v, 2(p - i - 1) + (v - 1) p + 1) chunks of L_i / v layers
// (Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2), for stage 0 p (1 + (p - 1)/(p v)) of
// the stage, Korthikanti et al. 2022, section 4.2.3.
constexpr FlightCase kFlightCases[] = {
    {"GpipeHoldsAll", Schedule::kGpipe, 2, 4, 1, 16, 16},
    {"FirstStage", Schedule::k1f1b, 0, 4, 1, 16, 4},
    {"LastStage", Schedule::k1f1b, 3, 4, 1, 16, 1},
    {"FewMicroBatches", Schedule::k1f1b, 0, 8, 1, 3, 3},
    {"NoPipeline", Schedule::k1f1b, 0, 1, 1, 16, 1},
    {"InterleavedFirst", Schedule::kInterleaved1f1b, 0, 4, 2, 16, 4 * (1 + 3.0 / (4 * 2))},
    {"InterleavedLast", Schedule::kInterleaved1f1b, 3, 4, 2, 16, (4 + 1) / 2.0},
    {"InterleavedFour", Schedule::kInterleaved1f1b, 0, 8, 4, 64, 8 * (1 + 7.0 / (8 * 4))},
    {"InterleavedFewMicroBatches", Schedule::kInterleaved1f1b, 0, 4, 2, 4, 4},
};

class InFlightTest : public testing::TestWithParam<FlightCase> {};

TEST_P(InFlightTest, MicroBatches) {
  const FlightCase& c = GetParam();
  EXPECT_DOUBLE_EQ(InFlight(c.schedule, c.index, c.stages, c.virtual_stages, c.micro_batches),
                   c.expected);
}

INSTANTIATE_TEST_SUITE_P(All, InFlightTest, testing::ValuesIn(kFlightCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Stages of 6, 10, 10 and 6 layers in two chunks each hold 2(4 - i - 1) + 4 + 1 chunks, of 3, 5, 5
// and 3 layers: 11 x 3, 9 x 5, 7 x 5 and 5 x 3.
TEST(Memory, ChunksOfUnevenStagesInFlight) {
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  const Estimate estimate = FullOf(problem, {.pipeline_parallel = 4,
                                             .virtual_pipeline = 2,
                                             .data_parallel = 2,
                                             .schedule = Schedule::kInterleaved1f1b,
                                             .layers_per_stage = {6, 10, 10, 6}});
  const auto stored = [&](std::size_t stage) {
    return Line(estimate.stage_memory[stage].breakdown, MemoryKind::kActivations);
  };
  const double layer = stored(3) / 15;
  EXPECT_DOUBLE_EQ(stored(0), 33 * layer);
  EXPECT_DOUBLE_EQ(stored(1), 45 * layer);
  EXPECT_DOUBLE_EQ(stored(2), 35 * layer);
}

// A stage holds its layers' activations once for each micro-batch in flight.
TEST(Memory, ActivationsInFlight) {
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  const Estimate whole = FullOf(problem, {});
  const Estimate piped = FullOf(problem, {.pipeline_parallel = 4});
  ASSERT_EQ(piped.stage_memory.size(), 4);
  const double layers = Line(whole.memory_breakdown, MemoryKind::kActivations) / 4;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(Line(piped.stage_memory[i].breakdown, MemoryKind::kActivations),
                     layers * static_cast<double>(4 - i));
  }
}

struct CopiesCase {
  const char* name;
  GradientDtype gradient;
  bool is_fused;  // the accumulation of gradients
  double autograd;
  double sharded;
};

void PrintTo(const CopiesCase& c, std::ostream* out) { *out << c.name; }

// A profile with further copies of 3 unsharded and 4 sharded bytes per parameter. If a kernel adds
// up gradients, the 16-bit gradient lies beside its fp32 sum. The fp32 copies that an optimizer
// makes of 16-bit gradients do not exist if gradients are fp32.
constexpr CopiesCase kCopiesCases[] = {
    {"Fp32", GradientDtype::kFp32, true, 0, 0}, {"Fp32Beside", GradientDtype::kFp32, false, 2, 0},
    {"Bf16", GradientDtype::kBf16, true, 0, 4}, {"Bf16InPlace", GradientDtype::kBf16, false, 0, 4},
    {"Fp16", GradientDtype::kFp16, true, 0, 4},
};

class StateCopiesTest : public testing::TestWithParam<CopiesCase> {};

TEST_P(StateCopiesTest, OfAParameter) {
  const CopiesCase& c = GetParam();
  FrameworkProfile profile;
  profile.extra_bytes_per_parameter = 3;
  profile.extra_sharded_bytes_per_parameter = 4;
  profile.gradient_accumulation_is_fused = c.is_fused;
  const StateBytes bytes = BytesPerParameter({.gradient_dtype = c.gradient}, profile);
  EXPECT_EQ(bytes.unsharded, 3);
  EXPECT_EQ(bytes.autograd, c.autograd);
  EXPECT_EQ(bytes.sharded_copies, c.sharded);
}

INSTANTIATE_TEST_SUITE_P(All, StateCopiesTest, testing::ValuesIn(kCopiesCases),
                         [](const auto& test) { return std::string(test.param.name); });

// The sharded copies come with ZeRO: 12 bytes, or (12 + 4) / 8 with 16-bit gradients.
TEST(StaticMemory, OptimizerCopiesNeedZero) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.profile.extra_sharded_bytes_per_parameter = 4;
  const auto states = [&](int zero_stage) {
    return Line(FullOf(problem, {.data_parallel = 8, .zero_stage = zero_stage}).memory_breakdown,
                MemoryKind::kOptimizerStates);
  };
  EXPECT_NEAR(states(1), 12.0 / 8 * kParameters, 1);  // fp32 gradients
  problem.workload.gradient_dtype = GradientDtype::kBf16;
  EXPECT_NEAR(states(0), 12 * kParameters, 1);
  EXPECT_NEAR(states(1), (12.0 + 4) / 8 * kParameters, 1);
  EXPECT_NEAR(states(3), (12.0 + 4) / 8 * kParameters, 1);
}

// 8-bit weights and their transpose, 2 bytes for all but the vocabulary's 2 x 131,072,000, lie
// beside the 16-bit weights of a replicated optimizer. A sharded optimizer keeps no 16-bit weights.
TEST(StaticMemory, EightBitWeights) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.workload.precision = Precision::kFp8;
  const auto states = [&](int zero_stage) {
    return States(FullOf(problem, {.data_parallel = 8, .zero_stage = zero_stage}));
  };
  const double replicated = states(0);
  const double sharded = states(1);
  problem.profile.fp8_weights_are_kept = true;
  EXPECT_NEAR(states(0) - replicated, 2 * (kParameters - 2 * 131'072'000.0), 2);
  EXPECT_EQ(states(1), sharded);
}

// The 16-bit gradients beside fp32 sums are whole until ZeRO-2 and 3 reduce them layer by layer: 2
// bytes per parameter of the device, then of its share.
TEST(StaticMemory, GradientsBesideTheirSums) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  for (const int zero_stage : {0, 1, 2, 3}) {
    const ParallelPlan plan = {.data_parallel = 8, .zero_stage = zero_stage};
    problem.profile.gradient_accumulation_is_fused = true;
    const double fused = States(FullOf(problem, plan));
    problem.profile.gradient_accumulation_is_fused = false;
    const double share = zero_stage < 2 ? 1 : 8;
    EXPECT_NEAR(States(FullOf(problem, plan)) - fused, 2 * kParameters / share, 2) << zero_stage;
  }
}

// A device of two directions holds two stages: twice the weights and gradients, and optimizer
// states that twice as many ranks share.
TEST(StaticMemory, TwoDirections) {
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  const auto states = [&](Schedule schedule) {
    return States(FullOf(
        problem,
        {.pipeline_parallel = 2, .data_parallel = 4, .zero_stage = 1, .schedule = schedule}));
  };
  EXPECT_NEAR(states(Schedule::kDualpipe), kParameters * (2 + 4 + 12.0 / 8), 4);
  // The fold gives the first device embedding and output layer, and the same layers.
  EXPECT_NEAR(states(Schedule::kZbV) - states(Schedule::k1f1b), 131'072'000.0 * (2 + 4 + 12.0 / 4),
              4);
}

struct LogitCase {
  const char* name;
  ParallelPlan plan;
  bool are_gathered;
  double bytes;  // 4 per logit, 4096 tokens per sequence
};

void PrintTo(const LogitCase& c, std::ostream* out) { *out << c.name; }

// The logits of the previous micro-batch, if there was one, are still alive: 64 sequences per step.
// V = 32000, padded to 32768 for t = 8.
const LogitCase kLogitCases[] = {
    {"ManyMicroBatches", {.data_parallel = 8}, false, 4 * 4096.0 * 32000},
    {"TwoMicroBatches", {.data_parallel = 32}, false, 4 * 4096.0 * 32000},
    {"OneMicroBatch", {.data_parallel = 64}, false, 0},
    {"OneLargeMicroBatch", {.data_parallel = 8, .micro_batch_size = 8}, false, 0},
    {"LargeMicroBatches",
     {.data_parallel = 8, .micro_batch_size = 4},
     false,
     4 * 4 * 4096.0 * 32000},
    {"Tensor8", {.tensor_parallel = 8}, false, 4 * 4096.0 * 32768 / 8},
    {"Tensor8Gathered", {.tensor_parallel = 8}, true, 4 * 4096.0 * 32768},
};

class OldLogitsTest : public testing::TestWithParam<LogitCase> {};

TEST_P(OldLogitsTest, OfTheMicroBatchBefore) {
  const LogitCase& c = GetParam();
  OwnedProblem problem = PlainProblem(Llama2_7b(), 8);
  problem.profile.logits_are_gathered = c.are_gathered;
  const auto transient = [&] {
    return Line(FullOf(problem, c.plan).memory_breakdown, MemoryKind::kTransient);
  };
  const double usual = transient();
  problem.profile.logit_bytes_between_micro_batches = 4;
  EXPECT_DOUBLE_EQ(transient() - usual, c.bytes);
}

INSTANTIATE_TEST_SUITE_P(All, OldLogitsTest, testing::ValuesIn(kLogitCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Only the stage of the output layer has logits.
TEST(Memory, OldLogitsOnTheLastStage) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  const Estimate usual = FullOf(problem, {.pipeline_parallel = 4});
  problem.profile.logit_bytes_between_micro_batches = 4;
  const Estimate kept = FullOf(problem, {.pipeline_parallel = 4});
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(Line(kept.stage_memory[i].breakdown, MemoryKind::kTransient) -
                         Line(usual.stage_memory[i].breakdown, MemoryKind::kTransient),
                     i == 3 ? 4 * 4096.0 * 32000 : 0);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
