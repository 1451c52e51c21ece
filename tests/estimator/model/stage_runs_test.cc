#include "estimator/model/stage_runs.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Llama-2-7B has 32 layers: 8 on each of four stages.
struct Case {
  std::string name;
  ParallelPlan plan;
  std::vector<int> counts;  // stages of each run
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class StageRunsTest : public testing::TestWithParam<Case> {};

TEST_P(StageRunsTest, EqualNeighboursAreOneRun) {
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 4);
  AnalyticModel model(problem.View());
  const StageRuns stages = model.StagesOf(GetParam().plan);
  std::vector<int> counts;
  int first = 0;
  for (const StageRun& run : stages.runs()) {
    EXPECT_EQ(run.first, first);
    for (int i = 0; i < run.count; ++i) EXPECT_EQ(&stages.StageAt(first + i), &run.stage);
    counts.push_back(run.count);
    first += run.count;
  }
  EXPECT_EQ(counts, GetParam().counts);
  EXPECT_EQ(stages.stage_count(), first);
  EXPECT_EQ(stages.micro_batches(), 64 / GetParam().plan.data_parallel);
}

ParallelPlan FourStages() { return {.pipeline_parallel = 4, .data_parallel = 8}; }

ParallelPlan WithCounts(std::vector<int> full) {
  ParallelPlan plan = FourStages();
  plan.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = std::move(full)};
  return plan;
}

ParallelPlan WithSplit(std::vector<int> layers) {
  ParallelPlan plan = FourStages();
  plan.layers_per_stage = std::move(layers);
  return plan;
}

ParallelPlan Folded() {
  ParallelPlan plan = FourStages();
  plan.schedule = Schedule::kZbV;
  return plan;
}

INSTANTIATE_TEST_SUITE_P(
    All, StageRunsTest,
    testing::Values(Case{"One", {.data_parallel = 32}, {1}},
                    // The first has the embedding, the last the output layer.
                    Case{"Even", FourStages(), {1, 2, 1}},
                    Case{"Split", WithSplit({7, 8, 9, 8}), {1, 1, 1, 1}},
                    Case{"RecomputesAlike", WithCounts({8, 3, 3, 0}), {1, 2, 1}},
                    Case{"RecomputesByStage", WithCounts({8, 3, 2, 0}), {1, 1, 1, 1}},
                    // The fold puts both ends of the model on the first device.
                    Case{"Folded", Folded(), {1, 3}}),
    [](const auto& test) { return test.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
