#include "estimator/layer/layer_split.h"

#include <gtest/gtest.h>

#include <numeric>
#include <ostream>

#include "search_space/spec/framework_profile.h"
#include "search_space/spec/model.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// nanotron's 1B model of its published sweep: 16 layers, h = 2048, f = 8192, V = 131072. A layer
// costs 4 h^2 + 3 h f = 67,108,864 and the output layer V h = 268,435,456, as much as 4 layers.
ModelSpec Nanotron1b() {
  return {.name = "nanotron-1b",
          .layer_count = 16,
          .hidden_size = 2048,
          .ffn_hidden_size = 8192,
          .attention_head_count = 32,
          .kv_head_count = 8,
          .head_dim = 64,
          .vocab_size = 131072,
          .tied_embeddings = true};
}

struct Case {
  const char* name;
  ModelSpec model;
  LayerSplit rule;
  int stages;
  std::vector<int> expected;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"EvenDivides", Llama2_7b(), LayerSplit::kEven, 4, {8, 8, 8, 8}},
    // The remainder goes to the first stages.
    {"EvenRemainder", Llama2_7b(), LayerSplit::kEven, 5, {7, 7, 6, 6, 6}},
    {"EvenOneStage", Llama2_7b(), LayerSplit::kEven, 1, {32}},
    {"EvenMoreStagesThanLayers",
     Nanotron1b(),
     LayerSplit::kEven,
     18,
     {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}},
    // The cost is 20 layers. Two stages: the first ends when its sum is above 10, at 11.
    {"ByCostTwoStages", Nanotron1b(), LayerSplit::kByCost, 2, {11, 5}},
    // Four: above 5 at 6, above 10 at 11, above 15 at 16; the last has only the output layer.
    {"ByCostFourStages", Nanotron1b(), LayerSplit::kByCost, 4, {6, 5, 5, 0}},
};

class SplitLayersTest : public testing::TestWithParam<Case> {};

TEST_P(SplitLayersTest, Split) {
  const Case& c = GetParam();
  FrameworkProfile profile;
  profile.layer_split = c.rule;
  EXPECT_EQ(SplitLayers(c.model, profile, c.stages), c.expected);
}

INSTANTIATE_TEST_SUITE_P(All, SplitLayersTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Three stages of a model with 80 layers: 27 + 27 + 26 by an even split.
TEST(LayersPerStage, ThoseThatThePlanStatesOrTheFrameworks) {
  const ModelSpec model = Llama2_70b();
  FrameworkProfile profile;
  profile.layer_split = LayerSplit::kEven;
  const std::vector<int> even = SplitLayers(model, profile, 3);
  const ParallelPlan unstated = {.pipeline_parallel = 3};
  EXPECT_EQ(LayersPerStage(unstated, model, profile), even);
  EXPECT_EQ(WithStatedSplit(unstated, model, profile).layers_per_stage, even);

  const ParallelPlan stated = {.pipeline_parallel = 2, .layers_per_stage = {30, 50}};
  EXPECT_EQ(LayersPerStage(stated, model, profile), stated.layers_per_stage);
  EXPECT_EQ(WithStatedSplit(stated, model, profile), stated);

  const ParallelPlan mixed = {.stages = {{.layer_count = 60}, {.layer_count = 20}}};
  EXPECT_EQ(LayersPerStage(mixed, model, profile), (std::vector<int>{60, 20}));
  EXPECT_EQ(WithStatedSplit(mixed, model, profile), mixed);
}

TEST(SplitLayers, NoLayerIsLost) {
  for (const LayerSplit rule : {LayerSplit::kEven, LayerSplit::kByCost}) {
    FrameworkProfile profile;
    profile.layer_split = rule;
    for (const ModelSpec& model : {Llama2_70b(), DeepseekV3(), Nanotron1b()}) {
      for (int p = 1; p <= 80; ++p) {
        const std::vector<int> split = SplitLayers(model, profile, p);
        EXPECT_EQ(split.size(), static_cast<std::size_t>(p));
        EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0), model.layer_count);
      }
    }
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
