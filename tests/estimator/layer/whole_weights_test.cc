#include <gtest/gtest.h>

#include "estimator/terms/collective.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Layers that keep their weights whole under ZeRO 3: docs/cost_model/memory.md "Whole weights".
// Llama-2-7B, 32 layers of 202,383,360 parameters and two vocabulary matrices of 32000 x 4096, on
// one node of eight devices, eight micro-batches a step.
constexpr double kLayer = 202'383'360;
constexpr double kVocabulary = 2 * 32000.0 * 4096;
constexpr double kParameters = 32 * kLayer + kVocabulary;

ParallelPlan Zero3(double whole) {
  return {.data_parallel = 8, .zero_stage = 3, .whole_weights_ratio = whole};
}

// Everything that is gathered at a time in one message; nothing overlapped.
OwnedProblem OneMessageProblem() {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.profile.bucket_parameters = 1e12;
  return problem;
}

double Time(const OwnedProblem& problem, CollectiveKind kind, double bytes) {
  return CollectiveTime(kind, RoundedBytes(bytes), {8, 1}, problem.cluster.pools.front(),
                        problem.cluster.topology)
      .count();
}

double LineAt(double whole, MemoryKind kind) {
  return Line(FullOf(PlainProblem(Llama2_7b(), 1), Zero3(whole)).memory_breakdown, kind);
}

struct WholeCase {
  const char* name;
  double ratio;
  double whole_layers;
  double gathered_layers;  // layers whose gathered 16-bit weights are alive
};

// All 32 layers are whole or, of those that are not, two are gathered.
constexpr WholeCase kWholeCases[] = {
    {"None", 0, 0, 2}, {"Half", 0.5, 16, 2}, {"NearlyHalf", 0.49, 15, 2}, {"All", 1, 32, 0}};

void PrintTo(const WholeCase& c, std::ostream* out) { *out << c.name; }

class WholeWeightsTest : public testing::TestWithParam<WholeCase> {};

// An eighth of every parameter, and the other seven eighths of the whole layers; of a gradient, 4
// bytes, and of the vocabulary one matrix are gathered as ever.
TEST_P(WholeWeightsTest, MemoryByHand) {
  const WholeCase& c = GetParam();
  EXPECT_NEAR(LineAt(c.ratio, MemoryKind::kWeights),
              2 * (kParameters / 8 + c.whole_layers * kLayer * 7 / 8), 1);
  const double zero2 = Line(
      FullOf(PlainProblem(Llama2_7b(), 1), {.data_parallel = 8, .zero_stage = 2}).memory_breakdown,
      MemoryKind::kTransient);
  EXPECT_NEAR(LineAt(c.ratio, MemoryKind::kTransient) - zero2,
              (2 * c.gathered_layers + 4) * kLayer + kVocabulary, 1);
  for (const MemoryKind kind : {MemoryKind::kGradients, MemoryKind::kOptimizerStates}) {
    EXPECT_EQ(LineAt(c.ratio, kind), LineAt(0, kind));
  }
}

// The first of eight forward passes gathers all, the others and the eight backward passes what is
// still sharded; gradients are scattered after each.
TEST_P(WholeWeightsTest, TimeByHand) {
  const WholeCase& c = GetParam();
  const OwnedProblem problem = OneMessageProblem();
  const double sharded = kParameters - c.whole_layers * kLayer;
  const double expected = 8 * Time(problem, CollectiveKind::kReduceScatter, 4 * kParameters) +
                          Time(problem, CollectiveKind::kAllGather, 2 * kParameters) +
                          15 * Time(problem, CollectiveKind::kAllGather, 2 * sharded);
  EXPECT_NEAR(Line(FullOf(problem, Zero3(c.ratio)), TimeCause::kDataParallel), expected,
              1e-9 * expected);
}

INSTANTIATE_TEST_SUITE_P(All, WholeWeightsTest, testing::ValuesIn(kWholeCases),
                         [](const auto& test) { return std::string(test.param.name); });

// The same holds beside computation: with all layers whole the messages take no longer than those
// of ZeRO-3 and no less than those of ZeRO-2, which also gathers the vocabulary once.
TEST(WholeWeights, AreBetweenZero2AndZero3) {
  OwnedProblem problem = OneMessageProblem();
  problem.cluster.pools = {PlainPool(2)};
  problem.cluster.pools.front().inter_node.nic_bandwidth = {3e9};
  for (const bool overlaps : {false, true}) {
    problem.workload.overlap = {.gradient_reduce = overlaps, .parameter_gather = overlaps};
    const auto seconds = [&](int zero_stage, double whole) {
      return FullOf(problem,
                    {.data_parallel = 16, .zero_stage = zero_stage, .whole_weights_ratio = whole})
          .step_time.count();
    };
    EXPECT_LT(seconds(3, 1), seconds(3, 0.5));
    EXPECT_LT(seconds(3, 0.5), seconds(3, 0));
    EXPECT_GT(seconds(3, 1), seconds(2, 0));
  }
}

// Stages of 20 and 12 layers, each with its own half, over four ranks.
TEST(WholeWeights, AreAShareOfEachStage) {
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  ParallelPlan plan = {
      .pipeline_parallel = 2, .data_parallel = 4, .zero_stage = 3, .layers_per_stage = {20, 12}};
  const Estimate sharded = FullOf(problem, plan);
  plan.whole_weights_ratio = 0.5;
  const Estimate half = FullOf(problem, plan);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    const auto weights = [&](const Estimate& estimate) {
      return Line(estimate.stage_memory[stage].breakdown, MemoryKind::kWeights);
    };
    const double layers = stage == 0 ? 10 : 6;
    EXPECT_NEAR(weights(half) - weights(sharded), 2 * layers * kLayer * 3 / 4, 2) << stage;
  }
}

// Mixtral with a set of experts on 4 ranks, which two ranks share: 16 layers have 7/8 of the dense
// part, 41,943,040 in attention, 32,768 in the router and 8,192 in norms, and half of the experts,
// 8 x 3 x 4096 x 14336 / 4.
TEST(WholeWeights, ExpertsHaveTheirOwnGroup) {
  const OwnedProblem problem = PlainProblem(Mixtral_8x7b(), 1);
  ParallelPlan plan = {.data_parallel = 8, .expert_parallel = 4, .zero_stage = 3};
  const auto weights = [&](double ratio) {
    plan.whole_weights_ratio = ratio;
    return Line(FullOf(problem, plan).memory_breakdown, MemoryKind::kWeights);
  };
  const double dense = 41'943'040.0 + 32'768 + 8'192;
  const double experts = 8.0 * 3 * 4096 * 14336 / 4;
  EXPECT_NEAR(weights(0.5) - weights(0), 2 * 16 * (dense * 7 / 8 + experts / 2), 2);
}

// A stage of one layer has no second one to gather: its whole weights take the place of what was
// set aside for the two, gaps included.
TEST(WholeWeights, OfAStageOfOneLayer) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.model.layer_count = 1;
  const Estimate sharded = FullOf(problem, Zero3(0));
  const Estimate whole = FullOf(problem, Zero3(1));
  EXPECT_NEAR(Line(whole.memory_breakdown, MemoryKind::kWeights) -
                  Line(sharded.memory_breakdown, MemoryKind::kWeights),
              2 * kLayer * 7 / 8, 2);
  EXPECT_NEAR(static_cast<double>((whole.reserved_memory - sharded.reserved_memory).count), 0, 4);
}

// Over one rank nothing is sharded.
TEST(WholeWeights, OfOneRankChangeNothing) {
  const OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  ParallelPlan plan = {.tensor_parallel = 8, .zero_stage = 3};
  const Estimate sharded = FullOf(problem, plan);
  plan.whole_weights_ratio = 1;
  const Estimate whole = FullOf(problem, plan);
  EXPECT_EQ(whole.step_time, sharded.step_time);
  EXPECT_EQ(whole.reserved_memory, sharded.reserved_memory);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
