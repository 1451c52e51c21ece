#include <gtest/gtest.h>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Activations in host memory: docs/cost_model/data_parallel.md "Host". Llama-2-7B, one device
// per replica, one sequence of 4096 tokens per micro-batch, eight of them per step. A layer keeps
// (formula 2) 4096 (8h + 2(q + 2u) + 2q + 6f + 4a) = 4096 (14 * 4096 + 2 * 4096 + 6 * 11008 + 4 *
// 32) bytes.
constexpr double kLayerBytes = 4096.0 * (16 * 4096 + 6 * 11008 + 4 * 32);
constexpr double kCopySeconds = kLayerBytes / 26e9;
constexpr int kMicroBatches = 8;

Estimate WithOffload(double ratio, FlopsPerSecond peak = {312e12}) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.cluster.pools.front().chip.peak[Precision::kBf16] = peak;
  return FullOf(problem, {.data_parallel = 8, .activation_offload_ratio = ratio});
}

double ActivationBytes(const Estimate& estimate) {
  return Line(estimate.memory_breakdown, MemoryKind::kActivations);
}

// Two of the offloaded layers are on the device, the one that runs and the one that is copied.
TEST(ActivationOffload, KeepsTwoOfTheOffloadedLayers) {
  const double plain = ActivationBytes(WithOffload(0));
  EXPECT_EQ(plain, 32 * kLayerBytes);
  EXPECT_EQ(ActivationBytes(WithOffload(2 / 32.0)), plain);
  EXPECT_EQ(ActivationBytes(WithOffload(3 / 32.0)), plain - kLayerBytes);
  EXPECT_EQ(ActivationBytes(WithOffload(0.25)), plain - 6 * kLayerBytes);
  EXPECT_EQ(ActivationBytes(WithOffload(1)), 3 * kLayerBytes);  // and the last
}

// A quarter of the layers is copied in less time than a pass takes.
TEST(ActivationOffload, IsHiddenBehindThePasses) {
  EXPECT_EQ(WithOffload(0.25).step_time, WithOffload(0).step_time);
  EXPECT_EQ(Line(WithOffload(0.25), TimeCause::kActivationOffload), 0);
}

// On a chip that is fast enough, copies of 31 layers take longer than either pass: both last as
// long as their copies.
TEST(ActivationOffload, IsExposedWhereCopiesTakeLonger) {
  constexpr FlopsPerSecond kFast = {1e16};
  const Estimate plain = WithOffload(0, kFast);
  const Estimate offloaded = WithOffload(1, kFast);
  const double tail = Line(plain, TimeCause::kDataParallel) + Line(plain, TimeCause::kOptimizer);
  EXPECT_NEAR(offloaded.step_time.count() - tail, kMicroBatches * 2 * 31 * kCopySeconds, 1e-6);
  EXPECT_NEAR(Line(offloaded, TimeCause::kActivationOffload),
              (offloaded.step_time - plain.step_time).count(), 1e-9);
}

// Two stages of 16 layers. The first holds two micro-batches, so that 2 * 8 - 2 of its 8 offloaded
// layers leave it; the last holds one.
TEST(ActivationOffload, CountsMicroBatchesInFlight) {
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  ParallelPlan plan = {.pipeline_parallel = 2, .data_parallel = 4};
  const auto activations = [&](std::size_t stage) {
    return Line(FullOf(problem, plan).stage_memory[stage].breakdown, MemoryKind::kActivations);
  };
  EXPECT_EQ(activations(0), 32 * kLayerBytes);
  plan.activation_offload_ratio = 0.5;
  EXPECT_EQ(activations(0), (32 - 14) * kLayerBytes);
  EXPECT_EQ(activations(1), (16 - 6) * kLayerBytes);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
