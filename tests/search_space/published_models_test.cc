#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/import/hugging_face.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/model.h"
#include "tests/files/source_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using Row = std::map<std::string, std::string>;

std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line + '\t');
  for (std::string cell; std::getline(in, cell, '\t');) cells.push_back(cell);
  return cells;
}

// Returns the rows of tests/data/models.tsv by column.
std::vector<Row> PublishedModels() {
  std::ifstream file(SourceFolder() / "tests/data/models.tsv");
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> columns = Cells(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = Cells(line);
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < columns.size() && i < cells.size(); ++i) row[columns[i]] = cells[i];
  }
  return rows;
}

// Returns the file as the hub has it: with its type and class, and with the keys that state no
// structure, as far as the table has them.
std::string ConfigOf(const Row& row) {
  nlohmann::json config = nlohmann::json::parse(row.at("config"));
  if (!row.at("other_keys").empty()) {
    config.update(nlohmann::json::parse(row.at("other_keys")), /*merge_objects=*/true);
  }
  if (!row.at("model_type").empty()) config["model_type"] = row.at("model_type");
  if (!row.at("architectures").empty()) config["architectures"] = {row.at("architectures")};
  return config.dump();
}

// Returns how far the count may be from the published one, which is exact or has so many digits.
double Tolerance(const Row& row) {
  const std::string& digits = row.at("parameters");
  if (row.at("precision") == "exact") return 0.001;
  const double places = static_cast<double>(digits.size()) - std::stod(row.at("precision"));
  return std::max(0.001, 0.5 * std::pow(10, places) / std::stod(digits));
}

// The models of the table whose layers a ModelSpec cannot describe. Each is refused by a key.
const std::map<std::string, std::string>& Refused() {
  static const auto* const refused = new std::map<std::string, std::string>{
      {"google/gemma-3n-E2B-it", "altup_num_inputs"},
      {"google/gemma-3n-E4B-it", "altup_num_inputs"},
      {"google/gemma-4-E4B-it", "hidden_size_per_layer_input"},
      {"facebook/opt-350m", "word_embed_proj_dim"},
      {"stepfun-ai/step3", "share_q_dim"},
      {"tencent/Tencent-Hunyuan-Large", "use_cla"}};
  return *refused;
}

TEST(PublishedModelsTest, AreReadWithTheirParameters) {
  std::size_t accepted = 0;
  const std::vector<Row> rows = PublishedModels();
  ASSERT_GE(rows.size(), 86U);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.at("name"));
    const auto imported = ImportHuggingFaceConfig(ConfigOf(row), "m");
    const auto refused = Refused().find(row.at("name"));
    if (refused != Refused().end()) {
      EXPECT_FALSE(imported.ok());
      EXPECT_THAT(std::string(imported.status().message()), testing::HasSubstr(refused->second));
      continue;
    }
    EXPECT_TRUE(imported.ok()) << imported.status();
    if (!imported.ok()) continue;
    EXPECT_THAT(Validate(imported->model, "model"), testing::IsEmpty());
    ++accepted;
    if (row.at("parameters").empty()) continue;
    ModelSpec model = imported->model;
    model.mtp_layer_count = 0;  // published counts leave them out
    const double published = std::stod(row.at("parameters"));
    EXPECT_NEAR(static_cast<double>(ParameterCount(model, false)) / published, 1, Tolerance(row));
  }
  EXPECT_EQ(accepted, rows.size() - Refused().size());
}

// Every parameter of these models is in a field of its own: sinks and biases of gpt-oss, the norms
// after the blocks of Gemma 2 and 3 and of OLMo 2, and norms of all heads together.
TEST(PublishedModelsTest, AreExactWithSinksBiasesAndNorms) {
  const std::set<std::string> names = {
      "openai/gpt-oss-20b",      "openai/gpt-oss-120b",      "google/gemma-2-2b",
      "google/gemma-2-9b",       "google/gemma-2-27b",       "google/gemma-3-1b-it",
      "google/gemma-3-4b-it",    "google/gemma-3-27b-it",    "allenai/OLMo-2-1124-7B",
      "allenai/OLMo-2-0325-32B", "allenai/OLMoE-1B-7B-0924", "bigcode/starcoder2-15b",
      "EleutherAI/gpt-neox-20b", "openai-community/gpt2-xl", "Qwen/Qwen2.5-7B"};
  std::size_t found = 0;
  for (const Row& row : PublishedModels()) {
    if (!names.contains(row.at("name"))) continue;
    ++found;
    const auto imported = ImportHuggingFaceConfig(ConfigOf(row), "m");
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_EQ(ParameterCount(imported->model, false), std::stoll(row.at("parameters")))
        << row.at("name");
  }
  EXPECT_EQ(found, names.size());
}

// A layer of LongCat has two attentions, two dense feed-forwards and experts: 28 x 3 layers here. A
// token chooses 12 of 512 experts and 256 that compute nothing: 12 x 512 / 768 of them compute.
TEST(ShortcutLayersTest, AreThreeLayersEach) {
  const std::vector<Row> rows = PublishedModels();
  const auto row = std::ranges::find_if(
      rows, [](const Row& r) { return r.at("name") == "meituan-longcat/LongCat-Flash-Chat"; });
  ASSERT_NE(row, rows.end());
  nlohmann::json config = nlohmann::json::parse(ConfigOf(*row));
  const auto imported = ImportHuggingFaceConfig(config.dump(), "m");
  ASSERT_TRUE(imported.ok()) << imported.status();
  const ModelSpec& model = imported->model;
  EXPECT_EQ(model.layer_count, 84);
  EXPECT_EQ(model.moe->experts_per_token, 8);
  ASSERT_EQ(model.layers.size(), 3U);
  EXPECT_EQ(model.layers[1].kind.mixer, TokenMixer::kNone);
  EXPECT_EQ(model.layers[1].kind.feed_forward, FeedForwardKind::kExperts);
  EXPECT_EQ(model.layers[2].kind, model.layers[0].kind);
  EXPECT_THAT(imported->notes, testing::Contains(testing::HasSubstr("was read as three, 84")));
  config["zero_expert_num"] = 250;
  config["zero_expert_type"] = "copy";
  const std::string message(ImportHuggingFaceConfig(config.dump(), "m").status().message());
  EXPECT_THAT(message, testing::HasSubstr("12 x 512 / 762"));
  EXPECT_THAT(message, testing::HasSubstr("must be identity"));
}

// Ring-linear's groups end with a layer of full attention. Files whose full attention is latent
// (Ling 3) have another linear attention.
TEST(GroupsOfLayersTest, AreReadIfTheyAreUnderstood) {
  const std::vector<Row> rows = PublishedModels();
  const auto row = std::ranges::find_if(
      rows, [](const Row& r) { return r.at("name") == "inclusionAI/Ring-mini-linear-2.0"; });
  ASSERT_NE(row, rows.end());
  nlohmann::json config = nlohmann::json::parse(ConfigOf(*row));
  const auto message = [&] {
    return std::string(ImportHuggingFaceConfig(config.dump(), "m").status().message());
  };
  const ModelSpec model = ImportHuggingFaceConfig(config.dump(), "m").value().model;
  int linear = 0;
  for (const LayerRun& run : RunsOf(model)) {
    if (run.kind.mixer == TokenMixer::kLinearAttention) linear += run.count;
  }
  EXPECT_EQ(linear, 16);  // four of each five
  config["layer_group_size"] = 3;
  EXPECT_THAT(message(), testing::HasSubstr("layer_group_size = 3; must divide the 20 layers"));
  config["kv_lora_rank"] = 512;
  EXPECT_THAT(message(), testing::HasSubstr("groups of layers with linear attention"));
}

// Newer files list what each layer has, also its heads (Laguna).
TEST(ListsOfLayersTest, SayWhichLayersHaveExpertsAndHowManyHeads) {
  nlohmann::json config = nlohmann::json::parse(
      R"({"model_type": "newest", "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
          "head_dim": 8, "vocab_size": 100, "num_experts": 16, "num_experts_per_tok": 2,
          "moe_intermediate_size": 32, "mlp_layer_types": ["dense", "sparse", "sparse", "dense"],
          "num_attention_heads_per_layer": [8, 16, 16, 8]})");
  const auto imported = ImportHuggingFaceConfig(config.dump(), "m");
  ASSERT_TRUE(imported.ok()) << imported.status();
  const std::vector<LayerRun> runs = RunsOf(imported->model);
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].kind.feed_forward, FeedForwardKind::kDense);
  EXPECT_EQ(runs[1].count, 2);
  EXPECT_EQ(runs[1].kind.feed_forward, FeedForwardKind::kExperts);
  EXPECT_EQ(runs[1].kind.attention_head_count, 16);
  EXPECT_EQ(runs[2].kind.attention_head_count, 8);
  config["mlp_layer_types"][1] = "spiral";
  config["num_attention_heads_per_layer"] = {8, 16};
  const std::string message(ImportHuggingFaceConfig(config.dump(), "m").status().message());
  EXPECT_THAT(message, testing::HasSubstr("mlp_layer_types = spiral; must be dense or sparse"));
  EXPECT_THAT(message, testing::HasSubstr("must have an entry for each of the 4 layers"));
}

// Python writes what JSON does not have.
TEST(PythonsJsonTest, IsRead) {
  const auto imported = ImportHuggingFaceConfig(
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
          "num_attention_heads": 8, "vocab_size": 100, "num_key_value_heads": 2, "initializer_range":
          NaN, "time_step_limit": [0.0, Infinity], "low": -Infinity, "name": "NaN \" Infinity"})",
      "m");
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->model.hidden_size, 64);
  EXPECT_EQ(imported->model.kv_head_count, 2);
}

TEST(LooksLikeHuggingFaceConfigTest, NeedsAFamily) {
  EXPECT_TRUE(LooksLikeHuggingFaceConfig(R"({"model_type": "bloom"})"));
  EXPECT_TRUE(LooksLikeHuggingFaceConfig(R"({"architectures": []})"));
  EXPECT_FALSE(LooksLikeHuggingFaceConfig(R"({"name": "llama-13b", "layer_count": 40})"));
  EXPECT_FALSE(LooksLikeHuggingFaceConfig(R"(["model_type"])"));
  EXPECT_FALSE(LooksLikeHuggingFaceConfig("model_type"));
  EXPECT_FALSE(LooksLikeHuggingFaceConfig(""));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
