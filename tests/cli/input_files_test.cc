#include "cli/input_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace meshwright {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

class InputFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / test->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  std::filesystem::path folder_;
};

constexpr char kLlama[] =
    R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
        "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100})";

TEST_F(InputFilesTest, HuggingFaceConfigIsCalledByItsFolder) {
  const auto parsed = ReadTuneRequest({.model = Write("tiny-llama/config.json", kLlama),
                                       .workload = Write("w.json", "{}"),
                                       .cluster = Write("c.json", "{}")});
  EXPECT_THAT(parsed.violations, IsEmpty());
  EXPECT_EQ(parsed.message.model().name(), "tiny-llama");
  EXPECT_EQ(parsed.message.model().layer_count(), 2);
}

TEST_F(InputFilesTest, MistakesOfAllFilesAtOnce) {
  const auto parsed = ReadTuneRequest({.model = Write("m.json", R"({"layers": 2})"),
                                       .workload = Write("w.json", R"({"sequence_length": "4k"})"),
                                       .cluster = (folder_ / "absent.json").string()});
  EXPECT_THAT(parsed.violations,
              ElementsAre(Field(&FieldViolation::field, "model.layers"),
                          Field(&FieldViolation::field, "workload.sequence_length"),
                          Field(&FieldViolation::field, "cluster")));
  EXPECT_THAT(parsed.violations.back().description, HasSubstr("No such file"));
}

TEST_F(InputFilesTest, FlagsOfTheSearch) {
  const auto parsed = ReadTuneRequest({.model = Write("m.json", "{}"),
                                       .workload = Write("w.json", "{}"),
                                       .cluster = Write("c.json", "{}"),
                                       .plan_count = 3,
                                       .deadline_seconds = 0.5,
                                       .strategy = "exhaustive",
                                       .disabled_rules = {"memory", "topology"}});
  EXPECT_EQ(parsed.message.plan_count(), 3);
  EXPECT_EQ(parsed.message.deadline_seconds(), 0.5);
  EXPECT_EQ(parsed.message.strategy(), "exhaustive");
  EXPECT_THAT(parsed.message.disabled_rules(), ElementsAre("memory", "topology"));
  EXPECT_FALSE(parsed.message.has_baseline());
}

TEST_F(InputFilesTest, HistoryCountsItsLines) {
  const auto parsed = ReadHistoryFile(Write("h.jsonl", "{\"outcome\": \"ok\"}\n\n{\"x\": 1}\n"));
  EXPECT_EQ(parsed.message.history_size(), 2);
  EXPECT_THAT(parsed.violations, ElementsAre(Field(&FieldViolation::field, "history[1].x")));
}

TEST(ParseCaseTest, ImportsHuggingFaceModels) {
  const auto parsed = ParseCase(std::string(R"({"id": "a", "model": )") + kLlama + "}");
  EXPECT_THAT(parsed.violations, IsEmpty());
  EXPECT_EQ(parsed.message.id(), "a");
  EXPECT_EQ(parsed.message.model().hidden_size(), 64);
}

TEST(ParseCaseTest, BadHuggingFaceModelBesideOtherMistakes) {
  const auto parsed = ParseCase(R"({"id": 7, "model": {"model_type": "mamba"}})");
  EXPECT_THAT(parsed.violations, ElementsAre(Field(&FieldViolation::field, "id"),
                                             Field(&FieldViolation::field, "model")));
  EXPECT_TRUE(parsed.is_json_object);
}

TEST(ParseCaseTest, KnowsWhatIsNoObject) {
  EXPECT_TRUE(ParseCase("{}").is_json_object);
  EXPECT_FALSE(ParseCase("[]").is_json_object);
  EXPECT_FALSE(ParseCase("{\"id\": ").is_json_object);
  EXPECT_FALSE(ParseCase("hello \"model_type\"").is_json_object);
}

}  // namespace
}  // namespace meshwright
