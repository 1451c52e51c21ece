#include "server/tuner/search/mixed/shape_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "estimator/pipeline/program.h"
#include "estimator/pipeline/simulation.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr Seconds kAnyTime(std::numeric_limits<double>::max());

// Four stages whose layers take 1 and 2 s.
std::vector<AlikeStages> FourStages() {
  return {{.count = 4, .forward = 1.0 / 3, .layer = Seconds(3)}};
}

// Eight layers, six micro-batches: (6 + 3) x 6 s. The bound is 5 x 6 s and twice the sum of 24 s,
// less 4 x 6 s that four such stages can hide in the warm-up of one.
TEST(ShapeBoundTest, IsExactForEqualStages) {
  const std::vector<AlikeStages> stages = FourStages();
  const ShapeCosts shape = {.stages = stages, .layers = 8, .micro_batches = 6};
  EXPECT_NEAR(LeastOfShape(shape, kAnyTime)->count(), 54, 1e-6);
  EXPECT_FALSE(LeastOfShape(shape, Seconds(54)).has_value());
  EXPECT_TRUE(LeastOfShape(shape, Seconds(54.1)).has_value());
}

// With messages that the stages wait for, 1 s for both passes, they take 9 x 7 s. Messages of 1 s
// behind three stages, beside computation, count once: seen from the last stage, 6 x 6 s and the
// 21 s before it.
TEST(ShapeBoundTest, CountsMessages) {
  std::vector<AlikeStages> stages = FourStages();
  ShapeCosts shape = {.stages = stages, .hops = Seconds(3), .layers = 8, .micro_batches = 6};
  EXPECT_NEAR(LeastOfShape(shape, kAnyTime)->count(), 57, 1e-6);
  shape.hops = Seconds(0);
  stages.front().message = Seconds(1);
  stages.front().sent = Seconds(0.5);
  EXPECT_NEAR(LeastOfShape(shape, kAnyTime)->count(), 63, 1e-6);
}

// One of four stages has three of nine layers: 1 x 9 s and twice the sum of 27 s.
TEST(ShapeBoundTest, LayersAreWhole) {
  const std::vector<AlikeStages> stages = FourStages();
  const ShapeCosts shape = {.stages = stages, .layers = 9, .micro_batches = 6};
  EXPECT_NEAR(LeastOfShape(shape, kAnyTime)->count(), 63, 1e-6);
}

// More stages than layers, or more layers than the stages hold in the time.
TEST(ShapeBoundTest, RefusesWhatCannotBe) {
  const std::vector<AlikeStages> stages = FourStages();
  EXPECT_FALSE(LeastOfShape({.stages = stages, .layers = 3, .micro_batches = 6}, kAnyTime));
  EXPECT_FALSE(LeastOfShape({.stages = stages, .layers = 8, .micro_batches = 6}, Seconds(36)));
}

double Unit(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11U) / static_cast<double>(std::uint64_t{1} << 53U);
}

// A pipeline whose stages are of a few kinds, and a split of its layers.
struct SplitPipeline {
  std::vector<AlikeStages> stages = {};
  std::vector<StageWork> works = {};
  std::vector<Hop> hops = {};
  int layers = 0;
};

SplitPipeline RandomPipeline(std::mt19937_64& random) {
  SplitPipeline pipeline;
  const bool waits = random() % 2 == 0;
  const std::size_t kinds = 1 + random() % 3;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    AlikeStages& alike = pipeline.stages.emplace_back();
    alike.count = 1 + static_cast<int>(random() % 4);
    alike.forward = 0.2 + 0.3 * Unit(random);
    alike.layer = Seconds(0.1 + Unit(random));
    if (random() % 2 == 0) alike.embedding = Seconds(Unit(random));
    alike.sent = Seconds(waits ? Unit(random) : 0);
    alike.message = 2 * alike.sent;
    for (int i = 0; i < alike.count; ++i) {
      const int own = 1 + static_cast<int>(random() % 6);
      pipeline.layers += own;
      const Seconds work = own * alike.layer + alike.embedding;
      // The share of the forward pass is never above the stated one.
      const double share = alike.forward * (random() % 2 == 0 ? 1 : Unit(random));
      pipeline.works.push_back(
          {.forward = share * work + alike.sent, .backward = (1 - share) * work + alike.sent});
      pipeline.hops.push_back({.forward = Seconds(waits ? 0 : Unit(random)),
                               .backward = Seconds(waits ? 0 : Unit(random))});
    }
  }
  pipeline.hops.pop_back();
  std::ranges::shuffle(pipeline.works, random);
  return pipeline;
}

// The bound is never above the time of a split, whatever the order of its stages.
TEST(ShapeBoundTest, NeverExceedsTheSimulation) {
  constexpr int kPipelines = 20'000;
  std::mt19937_64 random(28);
  PipelineSimulator simulator;
  int near = 0;
  for (int i = 0; i < kPipelines; ++i) {
    const SplitPipeline pipeline = RandomPipeline(random);
    const PipelineProgram program = {.schedule = Schedule::k1f1b,
                                     .micro_batches = 1 + static_cast<int>(random() % 30),
                                     .stages = pipeline.works,
                                     .hops = pipeline.hops};
    ShapeCosts shape = {.stages = pipeline.stages,
                        .layers = pipeline.layers,
                        .micro_batches = program.micro_batches};
    for (const Hop& hop : pipeline.hops) shape.hops += Sum(hop);
    const Seconds simulated = simulator.Simulate(program);
    const std::optional<Seconds> least = LeastOfShape(shape, kAnyTime);
    ASSERT_TRUE(least.has_value()) << i;
    ASSERT_LE(*least, (1 + 1e-9) * simulated) << i;
    if (*least > 0.8 * simulated) ++near;
    // A split that takes no longer is of use.
    EXPECT_TRUE(LeastOfShape(shape, (1 + 1e-6) * simulated).has_value()) << i;
  }
  EXPECT_GT(near, kPipelines / 20);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
