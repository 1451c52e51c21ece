#include "estimator/memory.h"

#include <gtest/gtest.h>

#include <ostream>

#include "tests/estimator/problems.h"

namespace meshwright {
namespace {

// Bytes a device holds of states: weights, gradients, optimizer.
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
  StateBytes expected;
};

void PrintTo(const StateCase& c, std::ostream* out) { *out << c.name; }

constexpr StateCase kStateCases[] = {
    {"Adam", Precision::kBf16, GradientDtype::kFp32, Optimizer::kAdam, {2, 4, 12}},
    {"Adam16BitGradients", Precision::kBf16, GradientDtype::kBf16, Optimizer::kAdam, {2, 2, 12}},
    {"Adam8Bit", Precision::kBf16, GradientDtype::kFp32, Optimizer::kAdam8bit, {2, 4, 6}},
    {"Momentum", Precision::kBf16, GradientDtype::kFp32, Optimizer::kSgd, {2, 4, 8}},
    // fp32 weights are their own master copy.
    {"Fp32", Precision::kFp32, GradientDtype::kFp32, Optimizer::kAdam, {4, 4, 8}},
};

class StateBytesTest : public testing::TestWithParam<StateCase> {};

TEST_P(StateBytesTest, OfAParameter) {
  const StateCase& c = GetParam();
  const Workload workload = {
      .precision = c.precision, .optimizer = c.optimizer, .gradient_dtype = c.gradient};
  const StateBytes bytes = BytesPerParameter(workload, {});
  EXPECT_EQ(bytes.weight, c.expected.weight);
  EXPECT_EQ(bytes.gradient, c.expected.gradient);
  EXPECT_EQ(bytes.optimizer, c.expected.optimizer);
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
// head's n (4h + 6V + 2h) with separate loss kernels (6 bytes a logit), n (4h + 2V + 2h) fused.
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

}  // namespace
}  // namespace meshwright
