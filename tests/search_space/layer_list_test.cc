#include "search_space/spec/layer_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search_space/spec/choices.h"
#include "search_space/spec/layer_parameters.h"
#include "search_space/spec/model.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

// Twelve layers: five with a window of 1,024 tokens, one without, twice (Gemma 3).
ModelSpec Windowed() {
  ModelSpec model = Llama2_7b();
  model.layer_count = 12;
  model.layers = {{.count = 5, .kind = {.sliding_window = 1024}}, {.count = 1}};
  return model;
}

LayerCounts Counts(int first, int second) { return {first, second}; }

TEST(LayerListTest, LeadingLayersAreDense) {
  const LayerList plain(Llama2_7b());
  EXPECT_EQ(plain.kinds().size(), 1U);
  EXPECT_EQ(plain.KindAt(31).feed_forward, FeedForwardKind::kDense);
  EXPECT_EQ(plain.KindAt(0).ffn_hidden_size, 11008);
  const LayerList experts(Mixtral_8x7b());
  EXPECT_EQ(experts.KindAt(0).feed_forward, FeedForwardKind::kExperts);
  const LayerList both(DeepseekV3());
  EXPECT_EQ(both.KindAt(2).feed_forward, FeedForwardKind::kDense);
  EXPECT_EQ(both.KindAt(3).feed_forward, FeedForwardKind::kExperts);
  EXPECT_EQ(both.Count(0, 61), Counts(3, 58));
  EXPECT_EQ(both.Count(2, 4), Counts(1, 3));
  EXPECT_TRUE(both.is_in_order());
}

TEST(LayerListTest, RunsRepeat) {
  const LayerList list(Windowed());
  ASSERT_EQ(list.kinds().size(), 2U);
  EXPECT_EQ(list.KindAt(0).sliding_window, 1024);
  EXPECT_EQ(list.KindAt(5).sliding_window, 0);
  EXPECT_EQ(list.KindAt(6).sliding_window, 1024);
  EXPECT_EQ(list.KindAt(11).sliding_window, 0);
  EXPECT_EQ(list.Count(0, 12), Counts(10, 2));
  EXPECT_EQ(list.Count(4, 3), Counts(2, 1));
  EXPECT_EQ(list.Count(10, 5), Counts(1, 1));  // beyond the end
  EXPECT_FALSE(list.is_in_order());
}

// Kinds that differ only in sizes that they do not use are one kind.
TEST(LayerListTest, UnusedSizesMakeNoKind) {
  ModelSpec model = Windowed();
  model.state_space = StateSpaceSpec{
      .head_count = 64, .head_dim = 64, .group_count = 1, .state_size = 128, .convolution_size = 4};
  LayerKind space = {.mixer = TokenMixer::kStateSpace};
  LayerKind same = space;
  same.sliding_window = 512;
  same.head_dim = 96;
  model.layers = {{.count = 1, .kind = space}, {.count = 1, .kind = same}};
  EXPECT_EQ(LayerList(model).kinds().size(), 1U);
}

// Mamba-2 by hand with h 4, two heads of 3 channels (6 inner), one group, a state of 5 and a
// convolution of 2 tokens: in 4 (2 6 + 2 5 + 2) = 96, convolution (6 + 10) (2 + 1) = 48, A, D and
// step sizes 3 2 = 6, norm 6, out 6 4 = 24; and the layer's norm 4.
TEST(LayerParametersTest, StateSpaceByHand) {
  ModelSpec model = {.layer_count = 1, .hidden_size = 4};
  model.state_space = StateSpaceSpec{
      .head_count = 2, .head_dim = 3, .group_count = 1, .state_size = 5, .convolution_size = 2};
  const LayerParameters p = ParametersOf(
      model, {.mixer = TokenMixer::kStateSpace, .feed_forward = FeedForwardKind::kNone});
  EXPECT_EQ(p.tensor_split, 96 + 48 + 6 + 6 + 24);
  EXPECT_EQ(p.replicated, 4);
  EXPECT_EQ(p.expert, 0);
}

// A gated delta net with h 4, one key head of 3, two value heads of 5: q and k 4 2 3 = 24, v 4 10 =
// 40, out 40, gate 40, decays and write strengths 2 4 2 = 16 with two vectors of 2, convolution of
// 4 tokens (6 + 10) 4 = 64. Replicated: the norm of a head 5, and the layer's 4.
TEST(LayerParametersTest, GatedDeltaByHand) {
  ModelSpec model = {.layer_count = 1, .hidden_size = 4};
  model.linear_attention = LinearAttentionSpec{.kind = LinearAttentionKind::kGatedDelta,
                                               .key_head_count = 1,
                                               .value_head_count = 2,
                                               .key_head_dim = 3,
                                               .value_head_dim = 5,
                                               .convolution_size = 4};
  const LayerParameters p = ParametersOf(
      model, {.mixer = TokenMixer::kLinearAttention, .feed_forward = FeedForwardKind::kNone});
  EXPECT_EQ(p.tensor_split, 24 + 40 + 40 + 40 + 16 + 4 + 64);
  EXPECT_EQ(p.replicated, 5 + 4);
}

TEST(LayersTest, NamesEveryMistake) {
  ModelSpec model = Windowed();
  model.layers = {{.count = 0},
                  {.count = 1, .kind = {.mixer = TokenMixer::kStateSpace}},
                  {.count = 1, .kind = {.feed_forward = FeedForwardKind::kExperts}}};
  std::vector<std::string> fields;
  for (const FieldViolation& violation : Validate(model, "model"))
    fields.push_back(violation.field);
  EXPECT_THAT(fields, ElementsAre("model.layers[0].count", "model.state_space", "model.moe"));
  model.layers = {{.count = 5}};
  const auto uneven = Validate(model, "model");
  ASSERT_EQ(uneven.size(), 1U);
  EXPECT_THAT(uneven.front().description, HasSubstr("5 layers; must divide layer_count 12"));
  model = DeepseekV3();
  model.layers = {{.count = 61}};
  const auto twice = Validate(model, "model");
  ASSERT_EQ(twice.size(), 1U);
  EXPECT_EQ(twice.front().field, "model.moe.first_dense_layer_count");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
