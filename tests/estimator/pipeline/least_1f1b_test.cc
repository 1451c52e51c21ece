#include "estimator/pipeline/least_1f1b.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "estimator/pipeline/program.h"
#include "estimator/pipeline/simulation.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

double Unit(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11U) / static_cast<double>(std::uint64_t{1} << 53U);
}

// Balanced stages, stages of 0.7 to 1, wild ones, or a few that are ten times as slow.
std::vector<StageWork> RandomStages(std::mt19937_64& random) {
  const int kind = static_cast<int>(random() % 4);
  std::vector<StageWork> stages(2 + random() % 9);
  for (StageWork& stage : stages) {
    const double forward = kind == 0 ? 1 : kind == 1 ? 0.7 + 0.3 * Unit(random) : Unit(random);
    const double slower = kind == 3 && random() % 3 == 0 ? 10 : 1;
    stage.forward = Seconds(0.01 + slower * forward);
    stage.backward =
        Seconds(kind == 2 ? 0.01 + Unit(random) : slower * forward * (1.5 + Unit(random)));
  }
  return stages;
}

TEST(Least1f1bTest, NeverExceedsTheSimulation) {
  constexpr int kPipelines = 100'000;
  std::mt19937_64 random(28);
  PipelineSimulator simulator;
  int equal = 0;
  for (int i = 0; i < kPipelines; ++i) {
    const std::vector<StageWork> stages = RandomStages(random);
    std::vector<Hop> hops;
    const int kind = static_cast<int>(random() % 3);
    for (std::size_t hop = 1; kind == 1 && hop < stages.size(); ++hop) {
      hops.push_back({.forward = Seconds(Unit(random)), .backward = Seconds(Unit(random))});
    }
    const PipelineProgram program = {.schedule = Schedule::k1f1b,
                                     .micro_batches = 1 + static_cast<int>(random() % 20),
                                     .message = Seconds(kind == 2 ? Unit(random) / 2 : 0),
                                     .stages = stages,
                                     .hops = hops};
    const double simulated = simulator.Simulate(program).count();
    const double least = Least1f1bTime(program).count();
    ASSERT_LE(least, simulated * (1 + 1e-9)) << "pipeline " << i;
    if (least >= simulated * (1 - 1e-9)) ++equal;
  }
  EXPECT_GT(equal, kPipelines / 2);  // it is exact for most of them
}

// Four equal stages with passes of 1 and 2 s and six micro-batches take (6 + 3) x 3 s. Seen from
// the first stage: 6 x 3 s of its own, and 9 s of the stages behind it, less its three warm-up
// passes of 1 s (6 s) and its three last backward passes of 2 s (3 s).
TEST(Least1f1bTest, IsExactForEqualStages) {
  const std::vector<StageWork> stages(4, {.forward = Seconds(1), .backward = Seconds(2)});
  EXPECT_EQ(
      LeastTimeAround(
          {.work = stages.front(), .micro_batches = 6, .stages_behind = 3, .behind = Seconds(9)}),
      Seconds(27));
  EXPECT_EQ(Least1f1bTime({.micro_batches = 6, .stages = stages}), Seconds(27));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
