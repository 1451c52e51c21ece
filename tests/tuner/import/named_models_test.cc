#include "server/tuner/import/named_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "search_space/spec/model.h"
#include "server/tuner/import/import.h"
#include "server/tuner/import/imported_job.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The parameters that the models' own publications give, in 1e9.
struct Case {
  std::string_view framework;
  std::string_view name;
  double parameters;
};

constexpr Case kCases[] = {
    {"torchtitan", "llama3/8B", 8.030},
    {"torchtitan", "llama3/70B", 70.55},
    {"torchtitan", "llama3/405B", 405.85},
    {"torchtitan", "qwen3/0.6B", 0.596},
    {"torchtitan", "qwen3/1.7B", 1.7206},
    {"torchtitan", "qwen3/4B", 4.0225},
    {"torchtitan", "qwen3/8B", 8.191},
    {"torchtitan", "qwen3/14B", 14.768},
    {"torchtitan", "qwen3/32B", 32.76},
    {"torchtitan", "qwen3/30B-A3B", 30.53},
    {"torchtitan", "qwen3/235B-A22B", 235.1},
    {"torchtitan", "deepseek_v3/16B", 15.706},
    {"torchtitan", "deepseek_v3/236B", 235.7},
    {"torchtitan", "deepseek_v3/671B", 671.0},
    {"maxtext", "llama2-7b", 6.738},
    {"maxtext", "llama2-13b", 13.016},
    {"maxtext", "llama2-70b", 68.977},
    {"maxtext", "mistral-7b", 7.242},
    {"maxtext", "mixtral-8x7b", 46.70},
    {"maxtext", "mixtral-8x22b", 140.6},
    {"maxtext", "llama3.1-405b", 405.85},
    {"torchtitan", "llama4/17bx16e", 107.77},
    {"torchtitan", "llama4/17bx128e_irope", 400.71},
    {"torchtitan", "gpt_oss/20b", 20.915},
    {"torchtitan", "gpt_oss/120b", 116.83},
    {"maxtext", "gemma-7b", 8.538},
    {"maxtext", "gemma2-9b", 9.242},
    {"maxtext", "gemma2-27b", 27.227},
    {"maxtext", "gemma3-4b", 3.880},
    {"maxtext", "gemma3-27b", 27.009},
};

TEST(NamedModelTest, HasThePublishedParameters) {
  for (const Case& one : kCases) {
    const auto model = NamedModel(one.framework, one.name);
    ASSERT_TRUE(model.has_value()) << one.name;
    const double count = 1e-9 * static_cast<double>(ParameterCount(*model, false));
    EXPECT_NEAR(count, one.parameters, 1e-3 * one.parameters) << one.name;
  }
}

// Only the flavors with "irope" attend to blocks, of 8,192 tokens, in all but every fourth layer.
TEST(NamedModelTest, BlocksOfLlama4) {
  const ModelSpec plain = NamedModel("torchtitan", "llama4/17bx16e").value();
  EXPECT_THAT(plain.layers, IsEmpty());
  EXPECT_EQ(plain.sliding_window, 0);
  const ModelSpec blocks = NamedModel("torchtitan", "llama4/17bx16e_irope").value();
  ASSERT_THAT(blocks.layers, testing::SizeIs(2));
  EXPECT_EQ(blocks.layers.front().count, 3);
  EXPECT_EQ(blocks.layers.front().kind.sliding_window, 8192);
  EXPECT_TRUE(blocks.layers.front().kind.is_chunked);
  EXPECT_EQ(blocks.layers.back().kind.sliding_window, 0);
}

TEST(NamedModelTest, EveryNameIsRead) {
  for (const char* const framework : {"torchtitan", "maxtext"}) {
    EXPECT_THAT(NamesOfModels(framework), testing::SizeIs(testing::Ge(14U)));
    for (const std::string& name : NamesOfModels(framework)) {
      EXPECT_TRUE(NamedModel(framework, name).has_value()) << name;
    }
  }
  EXPECT_FALSE(NamedModel("torchtitan", "llama3/debugmodel").has_value());
}

constexpr char kTorchtitan[] =
    "[model]\nname = \"llama3\"\nflavor = \"8B_flex\"\n[training]\nlocal_batch_size = 1\n"
    "seq_len = 8192\n[parallelism]\ntensor_parallel_degree = 2\n";

TEST(NamedModelTest, AFlavorIsEnough) {
  const auto job = ImportJob({.file = "train.toml", .text = kTorchtitan, .devices = 8});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->missing_of_model, IsEmpty());
  ASSERT_TRUE(job->model.has_value());
  EXPECT_EQ(job->model->ffn_hidden_size, 14336);  // 8/3 x 4096 x 1.3, up to a multiple of 1024
  EXPECT_EQ(job->workload.sequence_length, 8192);
  EXPECT_THAT(job->notes, Contains(HasSubstr("the sizes of llama3 8B_flex are those of")));
}

TEST(NamedModelTest, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  std::string text = kTorchtitan;
  text.replace(text.find("8B_flex"), 7, "9B");
  const auto job = ImportJob({.file = "train.toml", .text = text, .devices = 8});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE(job->model.has_value());
  EXPECT_THAT(job->missing_of_model, ElementsAre(HasSubstr("llama3/8B, ")));
}

TEST(NamedModelTest, AModelOfMaxTextIsEnough) {
  const auto job = ImportJob({.file = "run.yml",
                              .text = "model_name: mixtral-8x7b\nmax_target_length: 4096\n"
                                      "per_device_batch_size: 2\nici_fsdp_parallelism: 8\n",
                              .devices = 8});
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(job->model.has_value());
  EXPECT_EQ(job->model->moe->expert_count, 8);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
