#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "estimator/layer/layer_program.h"
#include "estimator/model/analytic_model.h"
#include "estimator/model/forward_flops.h"
#include "estimator/model/stage.h"
#include "estimator/model/stage_runs.h"
#include "estimator/terms/kernel.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr int kWindow = 512;

ModelSpec WithLayers(std::vector<LayerRun> layers) {
  ModelSpec model = Llama2_7b();
  model.layers = std::move(layers);
  return model;
}

ModelSpec Full() { return Llama2_7b(); }
ModelSpec Windowed() { return WithLayers({{.count = 1, .kind = {.sliding_window = kWindow}}}); }
ModelSpec Alternating() {
  return WithLayers({{.count = 1, .kind = {.sliding_window = kWindow}}, {.count = 1}});
}

double Step(const ModelSpec& model, const ParallelPlan& plan) {
  return FullOf(PlainProblem(model, 1), plan).step_time.count();
}

// A window on every layer is the model's own window.
TEST(MixedLayersTest, OneKindIsThePlainModel) {
  ModelSpec plain = Full();
  plain.sliding_window = kWindow;
  EXPECT_EQ(Step(Windowed(), {.data_parallel = 8}), Step(plain, {.data_parallel = 8}));
  EXPECT_LT(Step(Windowed(), {.data_parallel = 8}), Step(Full(), {.data_parallel = 8}));
}

// Half of the layers have each kind, on one stage and on each of two.
TEST(MixedLayersTest, AlternatingLayersCostTheMean) {
  for (const ParallelPlan& plan : {ParallelPlan{.data_parallel = 8},
                                   ParallelPlan{.pipeline_parallel = 2, .data_parallel = 4}}) {
    const double mean = (Step(Windowed(), plan) + Step(Full(), plan)) / 2;
    EXPECT_NEAR(Step(Alternating(), plan) / mean, 1, 1e-9);
  }
  const auto flops = [](const ModelSpec& model) {
    return ForwardFlopsPerToken(PlainProblem(model, 1).View());
  };
  EXPECT_DOUBLE_EQ(flops(Alternating()), (flops(Windowed()) + flops(Full())) / 2);
}

// A stage's kinds are those of its own layers: the first of two stages has all windows.
TEST(MixedLayersTest, StagesHaveTheirOwnKinds) {
  const OwnedProblem problem = PlainProblem(
      WithLayers({{.count = 16, .kind = {.sliding_window = kWindow}}, {.count = 16}}), 1);
  AnalyticModel model(problem.View());
  const ParallelPlan plan = {.pipeline_parallel = 2, .data_parallel = 4};
  const StageRuns stages = model.StagesOf(plan);
  EXPECT_EQ(stages.StageAt(0).layers, (LayerCounts{16, 0}));
  EXPECT_EQ(stages.StageAt(1).layers, (LayerCounts{0, 16}));
}

// The first layers of a stage come in the order of the model: window, none, window.
TEST(MixedLayersTest, TheFirstLayersAreThoseOfTheModel) {
  const OwnedProblem problem = PlainProblem(Alternating(), 1);
  AnalyticModel model(problem.View());
  const StageRuns stages = model.StagesOf({.pipeline_parallel = 2, .data_parallel = 4});
  EXPECT_EQ(FirstLayers(stages.StageAt(1), 0), (LayerCounts{0, 0}));
  EXPECT_EQ(FirstLayers(stages.StageAt(1), 3), (LayerCounts{2, 1}));
  EXPECT_EQ(FirstLayers(stages.StageAt(1), 16), (LayerCounts{8, 8}));
}

// Llama 4: a token of a block of w tokens attends to (w + 1) / 2 of them on average, one of a
// sliding window to w.
TEST(MixedLayersTest, BlocksNeedHalfOfAWindow) {
  const auto flops = [](bool is_chunked) {
    const ModelSpec model =
        WithLayers({{.count = 1, .kind = {.sliding_window = 4, .is_chunked = is_chunked}}});
    const OwnedProblem problem = PlainProblem(model, 1);
    return Named(LayerOf(problem, {}), "attention").front().attention.window;
  };
  EXPECT_EQ(flops(false), 4);
  EXPECT_EQ(flops(true), 2.5);
}

ModelSpec Mamba2() {
  ModelSpec model = WithLayers(
      {{.count = 1,
        .kind = {.mixer = TokenMixer::kStateSpace, .feed_forward = FeedForwardKind::kNone}}});
  model.hidden_size = 2048;
  model.state_space = StateSpaceSpec{
      .head_count = 64, .head_dim = 64, .group_count = 8, .state_size = 128, .convolution_size = 4};
  return model;
}

// n tokens, 4096 inner channels, B and C of 8 x 128, 64 step sizes: the projections need 2 n h (2
// 4096 + 2 1024 + 64) and 2 n 4096 h FLOPs.
TEST(MixedLayersTest, ProjectionsOfAStateSpaceByHand) {
  const OwnedProblem problem = PlainProblem(Mamba2(), 1);
  const LayerProgram program = LayerOf(problem, {});
  const double n = problem.workload.sequence_length;
  EXPECT_DOUBLE_EQ(Named(program, "scan input").front().flops.count,
                   2 * n * 2048 * (2 * 4096 + 2 * 1024 + 64));
  EXPECT_DOUBLE_EQ(Named(program, "projection").front().flops.count, 2 * n * 4096 * 2048);
  // Chunks of c = 256 tokens: scores c c 128 for 8 groups, and for each of 64 heads their product c
  // 64 c, the chunk's state 128 64 c and its output c 64 128.
  double scan = 0;
  for (const Kernel& kernel : Named(program, "scan")) scan += kernel.flops.count;
  const double c = 256;
  EXPECT_DOUBLE_EQ(scan, 2 * n / c * (8 * c * c * 128 + 64 * (c * c * 64 + 2 * c * 64 * 128)));
  EXPECT_TRUE(Named(program, "up").empty());  // no feed-forward
}

// Tensor parallelism divides heads, so that twice as many ranks have half of the work each.
TEST(MixedLayersTest, HeadsOfAScanAreDivided) {
  const OwnedProblem problem = PlainProblem(Mamba2(), 1);
  const auto work = [&](int ranks) {
    double flops = 0;
    for (const Kernel& kernel : LayerOf(problem, {.tensor_parallel = ranks}).kernels) {
      flops += kernel.flops.count;
    }
    return flops;
  };
  EXPECT_DOUBLE_EQ(work(4), work(2) / 2);
}

// Nothing measured stands behind a scan, and the interval says so.
TEST(MixedLayersTest, ScansRestOnAssumptions) {
  const auto estimate = [](const ModelSpec& model) {
    return FullOf(FrameworkProblem(model, "nvidia-a100-sxm4-80gb", 1, "megatron-core"),
                  {.data_parallel = 8});
  };
  const Estimate scan = estimate(Mamba2());
  const Estimate attention = estimate(Full());
  EXPECT_NE(attention.provenance, Provenance::kAssumed);
  EXPECT_EQ(scan.provenance, Provenance::kAssumed);
  EXPECT_GT(scan.step_time_high / scan.step_time, attention.step_time_high / attention.step_time);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
