#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "search_space/import/hugging_face.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "tests/files/source_folder.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using Json = nlohmann::json;

// DeepSeek-V3's published file.
Json DeepseekFile() {
  std::ifstream file(SourceFolder() / "examples/deepseek-v3/config.json");
  return Json::parse(file);
}

ModelSpec Read(const Json& file) {
  const auto read = ImportHuggingFaceConfig(file.dump(), "m");
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? read->model : ModelSpec();
}

TEST(StatedFactsTest, AllOfDeepseekV3) {
  ModelSpec expected = DeepseekV3();
  expected.name = "m";
  expected.mtp_layer_count = 1;
  expected.rotary_base = 10000;
  expected.norm_epsilon = 1e-6;
  const ModelSpec read = Read(DeepseekFile());
  expected.rope_scaling = read.rope_scaling;  // the next tests have the others
  expected.moe->router_score = read.moe.value().router_score;
  expected.moe->group_count = read.moe->group_count;
  expected.moe->groups_per_token = read.moe->groups_per_token;
  expected.moe->routed_scaling_factor = read.moe->routed_scaling_factor;
  expected.moe->router_bias = read.moe->router_bias;
  EXPECT_EQ(read, expected);
}

// Without these facts a job routes by a softmax over all experts.
TEST(StatedFactsTest, RouterOfDeepseekV3) {
  const MoeSpec moe = Read(DeepseekFile()).moe.value();
  EXPECT_EQ(moe.router_score, RouterScore::kSigmoid);
  EXPECT_EQ(moe.group_count, 8);
  EXPECT_EQ(moe.groups_per_token, 4);
  EXPECT_EQ(moe.routed_scaling_factor, 2.5);
  EXPECT_TRUE(moe.router_bias);
}

TEST(StatedFactsTest, YarnOfDeepseekV3) {
  EXPECT_EQ(Read(DeepseekFile()).rope_scaling, (RopeScaling{.kind = RopeScalingKind::kYarn,
                                                            .factor = 40,
                                                            .original_position_count = 4096,
                                                            .beta_fast = 32,
                                                            .beta_slow = 1,
                                                            .mscale = 1,
                                                            .mscale_all_dim = 1}));
}

// DeepSeek-V2 has a softmax, and its classes call one group none.
TEST(StatedFactsTest, RouterWithoutGroups) {
  Json file = DeepseekFile();
  file.update(
      {{"scoring_func", "softmax"}, {"topk_method", "greedy"}, {"n_group", 1}, {"topk_group", 1}});
  const MoeSpec moe = Read(file).moe.value();
  EXPECT_EQ(moe.router_score, RouterScore::kSoftmax);
  EXPECT_EQ(moe.group_count, 0);
  EXPECT_EQ(moe.groups_per_token, 0);
  EXPECT_FALSE(moe.router_bias);
}

// Newer files name the kind otherwise; kinds without launch flags are left out.
TEST(StatedFactsTest, KindsOfScaling) {
  Json file = DeepseekFile();
  file["rope_scaling"] = {
      {"rope_type", "llama3"}, {"factor", 8}, {"original_max_position_embeddings", 8192}};
  EXPECT_EQ(Read(file).rope_scaling,
            (RopeScaling{
                .kind = RopeScalingKind::kLlama3, .factor = 8, .original_position_count = 8192}));
  file["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 8}};
  EXPECT_FALSE(Read(file).rope_scaling.has_value());
  file["rope_scaling"] = nullptr;
  EXPECT_FALSE(Read(file).rope_scaling.has_value());
}

// A file that does not state them has none, so that questions of before keep their digests.
TEST(StatedFactsTest, NothingIsAssumed) {
  Json file = DeepseekFile();
  for (const char* key : {"scoring_func", "topk_method", "n_group", "topk_group",
                          "routed_scaling_factor", "rope_scaling"}) {
    file.erase(key);
  }
  const ModelSpec model = Read(file);
  EXPECT_FALSE(model.rope_scaling.has_value());
  EXPECT_FALSE(model.moe->router_score.has_value());
  EXPECT_EQ(model.moe->group_count, 0);
  EXPECT_FALSE(model.moe->routed_scaling_factor.has_value());
  EXPECT_FALSE(model.moe->router_bias);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
