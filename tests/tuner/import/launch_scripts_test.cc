// Reads the arguments of published launch scripts (tests/data/launch_scripts) whole.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/import/import.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/setting_reader.h"
#include "tests/files/source_folder.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

const std::filesystem::path kFolder = SourceFolder() / "tests/data/launch_scripts";

absl::StatusOr<std::string> Text(const std::string& path) {
  std::ifstream file(kFolder / path, std::ios::binary);
  if (!file) return absl::NotFoundError(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

struct Expected {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;
  int context = 1;
  int expert = 1;
  int micro_batch = 1;
  int zero = 0;
  int global_batch = 0;
  int sequence = 0;
  RecomputeGranularity recompute = RecomputeGranularity::kNone;
  bool operator==(const Expected&) const = default;
};

void PrintTo(const Expected& e, std::ostream* out) {
  *out << "tp" << e.tensor << " pp" << e.pipeline << " dp" << e.data << " cp" << e.context << " ep"
       << e.expert << " mb" << e.micro_batch << " zero" << e.zero << " batch " << e.global_batch
       << " sequence " << e.sequence << " recompute " << Word(e.recompute);
}

struct Script {
  std::string name;
  std::string file;
  std::string framework;
  int devices = 0;  // of the cluster
  Expected expected = {};
  std::map<std::string, std::string> variables = {};
  std::optional<ModelSpec> model = {};  // beside the file
  // Layers, hidden size and feed-forward size of the file's own model; 0: it states none.
  std::vector<int> sizes = {};
};

void PrintTo(const Script& script, std::ostream* out) { *out << script.name; }

constexpr RecomputeGranularity kFull = RecomputeGranularity::kFull;
constexpr RecomputeGranularity kSelective = RecomputeGranularity::kSelective;

// The expected values are the scripts' own words; data parallelism is devices / (tp x pp x cp).
const Script kScripts[] = {
    // 16 nodes instead of 1, on which its tp8 x pp16 = 128 ranks do not fit.
    {.name = "Gpt3_175b",
     .file = "gpt3_175b.sh",
     .framework = "megatron-core",
     .devices = 128,
     .expected = {.tensor = 8, .pipeline = 16, .global_batch = 1536, .sequence = 2048},
     .variables = {{"NUM_NODES", "16"}},
     .sizes = {96, 12288, 4 * 12288}},
    {.name = "Llama3_8b_fp8",
     .file = "llama3_8b_fp8.sh",
     .framework = "megatron-core",
     .devices = 8,
     .expected = {.data = 8, .zero = 1, .global_batch = 128, .sequence = 8192},
     .sizes = {32, 4096, 14336}},
    {.name = "Mixtral",
     .file = "mixtral.sh",
     .framework = "megatron-core",
     .devices = 2,
     .expected = {.data = 2, .expert = 2, .zero = 1, .global_batch = 4, .sequence = 256},
     .sizes = {2, 256, 0}},
    {.name = "Nemotron_15b",
     .file = "nemotron_15b.yaml",
     .framework = "megatron-core",
     .devices = 64,
     .expected = {.tensor = 8,
                  .data = 8,
                  .micro_batch = 4,
                  .zero = 1,
                  .global_batch = 1152,
                  .sequence = 4096},
     .sizes = {32, 6144, 4 * 6144}},
    {.name = "Llama2_deepspeed",
     .file = "llama2_deepspeed.sh",
     .framework = "megatron-deepspeed",
     .devices = 8,
     .expected = {.tensor = 2,
                  .pipeline = 2,
                  .data = 2,
                  .micro_batch = 4,
                  .global_batch = 32,
                  .sequence = 2048},
     .sizes = {24, 2048, 5504}},
    {.name = "Gpt_1_3b_deepspeed",
     .file = "gpt_1.3b_deepspeed.sh",
     .framework = "megatron-deepspeed",
     .devices = 64,
     .expected = {.tensor = 2,
                  .pipeline = 2,
                  .data = 16,
                  .micro_batch = 2,
                  .zero = 1,
                  .global_batch = 512,
                  .sequence = 2048,
                  .recompute = kFull},
     .sizes = {24, 2048, 4 * 2048}},
    // The feed-forward size is the least multiple of 256 from 2/3 x 4 x 4096 = 10922 on.
    {.name = "Aquila_7b",
     .file = "aquila_experiment.yaml",
     .framework = "flagscale",
     .devices = 8,
     .expected = {.data = 8, .micro_batch = 2, .zero = 1, .global_batch = 1728, .sequence = 2048},
     .sizes = {32, 4096, 11008}},
    // 2/3 x 4 x 8192 = 21845, times 1.3 is 28398, and the next multiple of 4096 is 28672.
    {.name = "Aquila_70b",
     .file = "aquila_70b.yaml",
     .framework = "flagscale",
     .devices = 64,
     .expected = {.tensor = 8,
                  .pipeline = 4,
                  .data = 2,
                  .micro_batch = 2,
                  .zero = 1,
                  .global_batch = 1056,
                  .sequence = 4096},
     .sizes = {80, 8192, 28672}},
    {.name = "Deepseek_16b",
     .file = "deepseek_16b_flagscale.yaml",
     .framework = "flagscale",
     .devices = 16,
     .expected =
         {.pipeline = 4, .data = 4, .expert = 2, .zero = 1, .global_batch = 256, .sequence = 4096},
     .sizes = {8, 2048, 11264}},
    // 64 layers of which 3 do nothing; experts over 8 x tp 4 ranks.
    {.name = "Deepseek_v3_mindspeed",
     .file = "deepseek_v3_mindspeed.sh",
     .framework = "mindspeed",
     .devices = 512,
     .expected = {.tensor = 4,
                  .pipeline = 8,
                  .data = 16,
                  .expert = 32,
                  .zero = 1,
                  .global_batch = 3840,
                  .sequence = 4096,
                  .recompute = kFull},
     .sizes = {61, 7168, 18432}},
    {.name = "Llama2_13b_mindspeed",
     .file = "llama2_13b_mindspeed.sh",
     .framework = "mindspeed",
     .devices = 8,
     .expected = {.tensor = 8, .micro_batch = 2, .global_batch = 256, .sequence = 4096},
     .sizes = {40, 5120, 13824}},
    // 64 / 8 = 8 shards of 8 sequences each.
    {.name = "Llama3_70b_torchtitan",
     .file = "llama3_70b.toml",
     .framework = "torchtitan",
     .devices = 64,
     .expected = {.tensor = 8,
                  .data = 8,
                  .micro_batch = 8,
                  .zero = 3,
                  .global_batch = 64,
                  .sequence = 8192,
                  .recompute = kFull},
     .model = Llama2_70b()},
    {.name = "Llama3_405b_torchtitan",
     .file = "llama3_405b.toml",
     .framework = "torchtitan",
     .devices = 128,
     .expected = {.tensor = 8,
                  .data = 16,
                  .micro_batch = 2,
                  .zero = 3,
                  .global_batch = 32,
                  .sequence = 8192,
                  .recompute = kFull},
     .model = Llama2_70b()},
    {.name = "Deepseek_v3_torchtitan",
     .file = "deepseek_v3.toml",
     .framework = "torchtitan",
     .devices = 256,
     .expected = {.data = 256,
                  .micro_batch = 4,
                  .zero = 3,
                  .global_batch = 1024,
                  .sequence = 4096,
                  .recompute = kSelective},
     .model = DeepseekV3()},
    // Every second layer is recomputed.
    {.name = "Integration_test_torchtitan",
     .file = "integration_test.toml",
     .framework = "torchtitan",
     .devices = 8,
     .expected = {.data = 8,
                  .micro_batch = 8,
                  .zero = 3,
                  .global_batch = 64,
                  .sequence = 2048,
                  .recompute = kFull},
     .model = Llama2_7b()},
    {.name = "Accelerate_nd",
     .file = "accelerate_nd.yaml",
     .framework = "pytorch-fsdp",
     .devices = 8,
     .expected = {.data = 2, .context = 4, .zero = 3, .global_batch = 2},
     .model = Llama2_7b()},
    {.name = "Accelerate_tp_hsdp",
     .file = "accelerate_tp_hsdp.yaml",
     .framework = "pytorch-fsdp",
     .devices = 8,
     .expected = {.tensor = 2, .data = 4, .zero = 3, .global_batch = 4},
     .model = Llama2_7b()},
    {.name = "Accelerate_slurm",
     .file = "accelerate_slurm.yaml",
     .framework = "pytorch-fsdp",
     .devices = 32,
     .expected = {.data = 32, .zero = 3, .global_batch = 32},
     .model = Llama2_7b()},
    {.name = "Nanotron_tiny",
     .file = "nanotron_tiny.yaml",
     .framework = "nanotron",
     .devices = 8,
     .expected = {.tensor = 2,
                  .pipeline = 2,
                  .data = 2,
                  .micro_batch = 2,
                  .global_batch = 4,
                  .sequence = 256},
     .sizes = {2, 16, 64}},
    {.name = "Nanotron_llama3_2_3b",
     .file = "nanotron_llama3.2_3b.yaml",
     .framework = "nanotron",
     .devices = 4,
     .expected = {.tensor = 2, .data = 2, .micro_batch = 2, .global_batch = 16, .sequence = 8192},
     .sizes = {28, 3072, 8192}},
    {.name = "Llama3_8b_paddle",
     .file = "llama3_8b_paddle.json",
     .framework = "paddle",
     .devices = 8,
     .expected = {.tensor = 2, .data = 4, .zero = 2, .global_batch = 64, .sequence = 4096},
     .model = Llama2_7b()},
    {.name = "Deepseek_v3_paddle",
     .file = "deepseek_v3_paddle.json",
     .framework = "paddle",
     .devices = 8,
     .expected =
         {.pipeline = 2, .data = 4, .expert = 4, .zero = 1, .global_batch = 40, .sequence = 4096},
     .model = DeepseekV3()},
    // 16 groups of 8 shards; 4 sequences a device.
    {.name = "Llama2_7b_maxtext",
     .file = "llama2_7b_maxtext.sh",
     .framework = "maxtext",
     .devices = 128,
     .expected = {.data = 128, .micro_batch = 4, .zero = 3, .global_batch = 512, .sequence = 4096},
     .model = Llama2_7b()},
};

absl::StatusOr<ImportedJob> Import(const Script& script) {
  const auto text = Text(script.file);
  if (!text.ok()) return text.status();
  return ImportJob({.file = script.file,
                    .text = *text,
                    .open_file = Text,
                    .variables = script.variables,
                    .model = script.model,
                    .devices = script.devices});
}

class LaunchScriptsTest : public testing::TestWithParam<Script> {};

TEST_P(LaunchScriptsTest, IsReadWhole) {
  const Script& script = GetParam();
  const auto job = Import(script);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->workload.framework_name, script.framework);
  const PlanRequest& plan = job->plan;
  const Expected read = {
      .tensor = plan.tensor_parallel.value_or(0),
      .pipeline = plan.pipeline_parallel.value_or(0),
      .data = plan.data_parallel.value_or(0),
      .context = plan.context_parallel.value_or(1),
      .expert = plan.expert_parallel.value_or(1),
      .micro_batch = plan.micro_batch_size.value_or(0),
      .zero = plan.zero_stage.value_or(-1),
      .global_batch = job->workload.global_batch_size.value_or(0),
      .sequence = job->workload.sequence_length.value_or(0),
      .recompute = plan.recompute.value_or(RecomputePlan()).granularity,
  };
  EXPECT_EQ(read, script.expected);
  if (!script.sizes.empty()) {
    ASSERT_TRUE(job->model.has_value());
    const std::vector<int> sizes = {job->model->layer_count, job->model->hidden_size,
                                    job->model->ffn_hidden_size};
    EXPECT_EQ(sizes, script.sizes);
  }
  // Every key is taken, or known to change nothing.
  std::vector<std::string> unknown;
  for (const UnusedKey& key : job->unused) {
    if (key.reason.empty()) unknown.push_back(key.key);
  }
  EXPECT_THAT(unknown, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, LaunchScriptsTest, testing::ValuesIn(kScripts),
                         [](const auto& c) { return c.param.name; });

// Chunks of a V go down the ranks and back; the last three of 16 x 4 layers are idle, and they lie
// in the last chunk, which is the first rank's: 8 - 3 = 5.
TEST(LaunchScriptTest, IdleLayersOfMindSpeed) {
  for (const Script& script : kScripts) {
    if (script.name != "Deepseek_v3_mindspeed") continue;
    const auto job = Import(script);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->plan.schedule, Schedule::kDualpipeV);
    EXPECT_THAT(job->plan.layers_per_stage, testing::ElementsAre(5, 8, 8, 8, 8, 8, 8, 8));
    EXPECT_EQ(job->model->moe->expert_count, 256);
    EXPECT_EQ(job->model->moe->first_dense_layer_count, 3);
    EXPECT_EQ(job->model->moe->shared_expert_ffn_hidden_size, 2048);
    EXPECT_EQ(job->model->mla->q_lora_rank, 1536);
    EXPECT_EQ(job->model->mtp_layer_count, 1);
    // These change time or memory, and no plan states them.
    EXPECT_THAT(job->notes, testing::Contains(testing::HasSubstr("swap-optimizer")));
    EXPECT_THAT(job->notes, testing::Contains(testing::HasSubstr("moe-fb-overlap")));
  }
}

// The world of the script as published, one node, is too small for its degrees.
TEST(LaunchScriptTest, WorldSizeMustBeAMultiple) {
  const auto job = ImportJob({.file = "gpt3_175b.sh", .text = Text("gpt3_175b.sh").value()});
  EXPECT_THAT(std::string(job.status().message()),
              testing::HasSubstr("from.tensor-model-parallel-size x pipeline-model-parallel-size x "
                                 "context-parallel-size = 128; must divide the 8 devices"));
}

// Three meshes of nodes of two A800, which the pool's chip names.
TEST(LaunchScriptTest, MixedDevicesOfFlagScale) {
  const auto job = ImportJob({.file = "aquila_hetero.yaml",
                              .text = Text("aquila_hetero.yaml").value(),
                              .devices = 8,
                              .pools = {{.name = "p",
                                         .chip = "nvidia-a800-sxm4-80gb",
                                         .node_count = 4,
                                         .devices_per_node = 2}}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->devices, 8);
  const StagePlan first = {
      .pool = "p", .node_count = 1, .tensor_parallel = 2, .layer_count = 6, .micro_batch_size = 1};
  StagePlan second = first;
  second.node_count = 2;
  second.tensor_parallel = 4;
  second.layer_count = 2;
  StagePlan third = first;
  third.layer_count = 4;
  EXPECT_THAT(job->plan.stages, testing::ElementsAre(first, second, third));
  EXPECT_EQ(job->plan.pipeline_parallel, 3);
  EXPECT_EQ(job->plan.zero_stage, 1);
  EXPECT_EQ(job->plan.tensor_parallel, std::nullopt);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
