#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/import/hugging_face.h"
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

// Returns the file as the hub has it: with its type and class.
std::string ConfigOf(const Row& row) {
  nlohmann::json config = nlohmann::json::parse(row.at("config"));
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
      {"meituan-longcat/LongCat-Flash-Chat", "zero_expert_num"},
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
