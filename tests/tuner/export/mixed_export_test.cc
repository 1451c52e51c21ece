#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/legality/legality.h"
#include "search_space/base/status.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/import/import.h"
#include "server/tuner/import/import_request.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/setting_reader.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/export/problems.h"
#include "tests/tuner/search/mixed_problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::HasSubstr;

// 8 nodes of 8 devices and 8 nodes of 16 devices of two vendors.
Problem TwoVendors(const std::string& framework) {
  Problem problem = Llama70b(framework, framework == "flagscale" ? "0.9" : "0.14");
  problem.cluster.pools = {
      {.name = "nv", .chip = {.id = "a", .vendor = "V"}, .node_count = 8, .devices_per_node = 8},
      {.name = "ix", .chip = {.id = "b", .vendor = "W"}, .node_count = 8, .devices_per_node = 16}};
  problem.legality = LegalityRulesOf(framework, problem.workload.framework_version);
  return problem;
}

std::vector<StagePlan> Copies(const StagePlan& stage, std::size_t count) { return {count, stage}; }

// Two stages of 4 nodes with tensor parallelism 8, and four of 2 nodes with 4: each has 32 devices,
// and 4 x 2 = 8 x 1 sequences a micro-batch. 2 x 16 + 4 x 12 = 80 layers.
ParallelPlan OwnDegrees() {
  ParallelPlan plan = {.sequence_parallel = true, .pipeline_parallel = 6, .zero_stage = 1};
  plan.stages = Copies({.pool = "nv",
                        .node_count = 4,
                        .tensor_parallel = 8,
                        .data_parallel = 4,
                        .layer_count = 16,
                        .micro_batch_size = 2},
                       2);
  const std::vector<StagePlan> others = Copies({.pool = "ix",
                                                .node_count = 2,
                                                .tensor_parallel = 4,
                                                .data_parallel = 8,
                                                .layer_count = 12,
                                                .micro_batch_size = 1},
                                               4);
  plan.stages.insert(plan.stages.end(), others.begin(), others.end());
  plan.stages[2].recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {5}};
  plan.stages[3].recompute = {.granularity = RecomputeGranularity::kFull};
  return plan;
}

// The same nodes with tensor parallelism 8 everywhere.
ParallelPlan EqualDegrees() {
  ParallelPlan plan = OwnDegrees();
  for (StagePlan& stage : plan.stages) {
    stage.tensor_parallel = 8;
    stage.data_parallel = 4;
    stage.micro_batch_size = 2;
    stage.recompute = {};
  }
  return plan;
}

// 1,024 / 8 = 128 micro-batches. The fourth stage recomputes all of its 12 layers.
TEST(MixedExportTest, FlagScale) {
  const auto config = ExportPlan("flagscale", TwoVendors("flagscale"), OwnDegrees());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->text, R"(system:
  tensor_model_parallel_size: 8
  sequence_parallel: true
  pipeline_model_parallel_size: 6
  context_parallel_size: 1
  use_distributed_optimizer: true
  overlap_grad_reduce: true
  overlap_param_gather: true
  precision:
    bf16: true
    accumulate_allreduce_grads_in_fp32: true
  attention_backend: flash
  cross_entropy_loss_fusion: true
  recompute_granularity: full
  recompute_method: block
  recompute_num_layers: 12
  recompute_granularity_per_stage_micro_batch: [[1, 128, 0], [1, 128, 0], [1, 128, 1], )"
                          R"([1, 128, 1], [1, 128, 0], [1, 128, 0]]
  recompute_method_per_stage_micro_batch: [[1, 128, 0], [1, 128, 0], [1, 128, 1], )"
                          R"([1, 128, 1], [1, 128, 0], [1, 128, 0]]
  recompute_num_layers_per_stage_micro_batch: [[1, 128, 0], [1, 128, 0], [1, 128, 5], )"
                          R"([1, 128, 12], [1, 128, 0], [1, 128, 0]]
  hetero:
    enable_hetero: true
    hetero_use_cpu_communication: true
    hetero_pipeline_layer_split: [16, 16, 12, 12, 12, 12]
    hetero_process_meshes: [8, 1, 1, 4, 2, 4, 1, 1, 8, 4]
    hetero_device_types: [nv, ix]
    hetero_current_device_type: nv
  checkpoint:
    ckpt_format: torch
model:
  micro_batch_size: 2
  global_batch_size: 1024
  num_layers: 80
  hidden_size: 8192
  ffn_hidden_size: 28672
  swiglu: true
  num_attention_heads: 64
  group_query_attention: true
  num_query_groups: 8
  kv_channels: 128
  normalization: RMSNorm
  disable_bias_linear: true
  position_embedding_type: rope
  untie_embeddings_and_output_weights: true
  seq_length: 4096
  max_position_embeddings: 4096
  optimizer:
    optimizer: adam
  attention_dropout: 0
  hidden_dropout: 0
data:
  tokenizer:
    vocab_size: 32000
)");
  ASSERT_EQ(config->other_files.size(), 2U);
  EXPECT_THAT(config->other_files[0].text,
              HasSubstr("    nnodes: 16\n    hostfile: ./conf/hostfile\n    rdzv_backend: static\n"
                        "  envs:\n"));
  EXPECT_EQ(config->other_files[1].name, "conf/hostfile");
  EXPECT_THAT(config->other_files[1].text,
              testing::StartsWith("<host-nv-1> slots=8 type=nv\n<host-nv-2> slots=8 type=nv\n"));
  EXPECT_THAT(config->other_files[1].text, testing::EndsWith("\n<host-ix-8> slots=16 type=ix\n"));
  EXPECT_THAT(config->left_out, Contains(HasSubstr("in hostfile: the names of the hosts")));
  EXPECT_THAT(config->left_out, Contains(HasSubstr("distributed_backend: flagcx")));
}

// Meshes of one vendor have its library. Two neighbouring shapes on one pool are two meshes.
TEST(MixedExportTest, FlagScaleWithExperts) {
  Problem problem = ExpertProblem("flagscale");
  problem.cluster = TwoVendors("flagscale").cluster;
  problem.cluster.pools[1].chip.vendor = "V";
  ParallelPlan plan = OwnDegrees();
  plan.expert_parallel = 4;
  plan.expert_tensor_parallel = 2;
  for (StagePlan& stage : plan.stages) {
    stage.recompute = {};
    stage.layer_count = 5;
  }
  plan.stages[0].layer_count = 7;  // 7 + 5 x 5 = 32
  plan.stages[5].tensor_parallel = 8;
  plan.stages[5].data_parallel = 4;
  plan.stages[5].micro_batch_size = 2;
  const std::string text = Exported("flagscale", problem, plan);
  EXPECT_THAT(text, HasSubstr("    hetero_process_meshes: "
                              "[8, 1, 4, 4, 2, 4, 1, 4, 8, 3, 8, 1, 4, 4, 1]\n"
                              "    expert_tensor_parallel_size_per_process_mesh: [2, 2, 2]\n"
                              "    hetero_device_types: [nv, ix, ix]\n"));
  EXPECT_THAT(text, HasSubstr("hetero_use_cpu_communication: false\n"));
}

// The states of a tied embedding are sharded over 4 ranks on the first stage and 8 on the last.
TEST(MixedExportTest, FlagScaleWithOneEmbedding) {
  Problem problem = TwoVendors("flagscale");
  problem.model.tied_embeddings = true;
  ParallelPlan plan = OwnDegrees();
  EXPECT_THAT(Exported("flagscale", problem, plan),
              HasSubstr("    use_partial_reduce_for_shared_embedding: true\n"));
  plan.zero_stage = 0;
  EXPECT_THAT(Exported("flagscale", problem, plan),
              testing::Not(HasSubstr("use_partial_reduce_for_shared_embedding")));
}

TEST(MixedExportTest, MegatronCore) {
  const auto config = ExportPlan("megatron-core", TwoVendors("megatron-core"), EqualDegrees());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->text, HasSubstr("--tensor-model-parallel-size 8 \\\n--sequence-parallel \\\n"
                                      "--pipeline-model-parallel-size 6 \\\n"
                                      "--pipeline-model-parallel-layout "
                                      "'Et*16|t*16|t*12|t*12|t*12|t*12L' \\\n"
                                      "--context-parallel-size 1 \\\n--micro-batch-size 2 \\\n"));
  EXPECT_EQ(
      config->command,
      "MESHWRIGHT_POOLS=nv,ix CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 16 --nproc-per-node "
      "$DEVICES_PER_NODE --node-rank $NODE_RANK --master-addr $MASTER_ADDR --master-port "
      "29500 pretrain_gpt.py");
  EXPECT_THAT(config->left_out, Contains("NODE_RANK of each node, in the pipeline's order: 0 to 7 "
                                         "on nv, 8 to 15 on ix"));
  EXPECT_THAT(config->left_out, Contains("DEVICES_PER_NODE: 8 on nv, 16 on ix"));
  EXPECT_THAT(config->left_out, Contains(HasSubstr("a collective library")));
}

struct Refusal {
  const char* name;
  const char* framework;
  void (*change)(Problem&, ParallelPlan&);
  const char* message;
};

const Refusal kRefusals[] = {
    {"OwnDegrees", "megatron-core", [](Problem&, ParallelPlan& plan) { plan = OwnDegrees(); },
     "plan.stages[2].tensor_parallel = 4; megatron-core gives all stages that of the first, 8"},
    {"OtherRecomputation", "megatron-core",
     [](Problem&, ParallelPlan& plan) {
       plan.stages[1].recompute.granularity = RecomputeGranularity::kFull;
     },
     "all stages recompute alike"},
    {"OtherFrameworks", "torchtitan", [](Problem&, ParallelPlan&) {},
     "plan.stages = 6 stages on pools of their own; this exporter writes no such plan for "
     "torchtitan"},
    {"DevicesOfANode", "nemo", [](Problem&, ParallelPlan&) {},
     "cluster.pools.devices_per_node = not the same on all pools"},
    {"ReturningPool", "flagscale",
     [](Problem&, ParallelPlan& plan) { std::swap(plan.stages[0], plan.stages[5]); },
     "the stages of a type of device follow one another"},
    {"ShardedGradients", "flagscale", [](Problem&, ParallelPlan& plan) { plan.zero_stage = 2; },
     "plan.zero_stage = 2; FlagScale's meshes shard the optimizer states only"},
    {"IdleDevices", "flagscale",
     [](Problem&, ParallelPlan& plan) {
       for (StagePlan& stage : plan.stages) {
         stage.node_count = 1;
         stage.device_count = stage.tensor_parallel = 2;
         stage.data_parallel = 1;
       }
     },
     "plan.stages.device_count = 4 idle devices in the nodes of pool nv"},
    {"PartsOfNodes", "megatron-core",
     [](Problem&, ParallelPlan& plan) { plan.stages[0].device_count = 4; },
     "plan.stages[0].device_count = 4; this exporter writes stages of whole nodes only"},
    {"ShardingGroups", "flagscale",
     [](Problem&, ParallelPlan& plan) {
       plan.zero_stage = 1;
       plan.zero_group_size = 2;
     },
     "plan.zero_group_size = 2 with 4 ranks of data parallelism"},
    {"Modules", "flagscale",
     [](Problem&, ParallelPlan& plan) {
       for (StagePlan& stage : plan.stages) {
         stage.recompute = {.granularity = RecomputeGranularity::kSelective, .modules = {"mlp"}};
       }
       plan.stages[4].recompute.modules = {"core_attn"};
     },
     "plan.stages[4].recompute.modules = [core_attn]; flagscale recomputes the same ones in all "
     "stages, [mlp]"},
    {"MultiTokenPrediction", "flagscale",
     [](Problem& problem, ParallelPlan& plan) {
       problem.model.mtp_layer_count = 1;
       plan = OwnDegrees();
     },
     "model.mtp_layer_count = 1 with tensor parallelism 8 on the first and 4 on the last stage"},
    {"WordsOfAType", "flagscale",
     [](Problem& problem, ParallelPlan& plan) {
       problem.cluster.pools[0].name = "two words";
       plan.stages[0].pool = "two words";
       plan.stages[1].pool = "two words";
     },
     "plan.stages[0].pool = \"two words\"; in launch files the name of a pool is one word"},
};

class MixedRefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(MixedRefusalTest, NamesFieldAndValue) {
  Problem problem = TwoVendors(GetParam().framework);
  ParallelPlan plan = EqualDegrees();
  GetParam().change(problem, plan);
  const auto config = ExportPlan(GetParam().framework, problem, plan);
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(config.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(All, MixedRefusalTest, testing::ValuesIn(kRefusals),
                         [](const auto& c) { return c.param.name; });

// A plan without stages names its pool, whose nodes count.
TEST(MixedExportTest, OnePoolOfSeveral) {
  ParallelPlan plan = {.tensor_parallel = 8, .data_parallel = 16, .pools = {"ix"}};
  const auto config = ExportPlan("flagscale", TwoVendors("flagscale"), plan);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->other_files[0].text, HasSubstr("    nnodes: 8\n    nproc_per_node: 16\n"));
}

int Below(std::mt19937_64& random, std::size_t end) { return static_cast<int>(random() % end); }

int OneOf(std::mt19937_64& random, const std::vector<int>& values) {
  return values[static_cast<std::size_t>(Below(random, values.size()))];
}

// Adds experts to a random problem. Megatron-Core has no expert parallelism in fp16.
void AddExperts(Problem& problem) {
  SetBiases(LinearBiases::kNone, problem.model);  // experts with biases need a later release
  if (problem.workload.precision == Precision::kFp16) return;
  problem.model.mlp = MlpKind::kSwiglu;
  problem.model.moe = MoeSpec{.expert_count = 8,
                              .experts_per_token = 2,
                              .expert_ffn_hidden_size = problem.model.ffn_hidden_size};
}

// Draws plans that mix at least two pools of a problem. They may be illegal.
class MixDrawer {
 public:
  MixDrawer(const Problem& problem, std::mt19937_64& random)
      : problem_(problem), random_(random), is_equal_(problem.profile.name == "megatron-core") {}

  ParallelPlan Draw() {
    ParallelPlan plan = {.sequence_parallel = Below(random_, 2) == 1,
                         .zero_stage = Below(random_, 2)};
    sequences_ = OneOf(random_, Divisors(problem_.workload.global_batch_size));
    std::vector<NodePool> pools = problem_.cluster.pools;
    std::shuffle(pools.begin(), pools.end(), random_);
    pools.resize(2 + static_cast<std::size_t>(Below(random_, pools.size() - 1)));
    shape_.reset();
    for (const NodePool& pool : pools) AddStretch(pool, plan);
    plan.pipeline_parallel = static_cast<int>(plan.stages.size());
    SplitLayers(plan);
    Recompute(plan);
    if (problem_.model.moe.has_value()) {
      plan.expert_parallel = OneOf(random_, {1, 2, 4});
      plan.expert_tensor_parallel = OneOf(random_, {1, 2});
    }
    return plan;
  }

 private:
  void AddStretch(const NodePool& pool, ParallelPlan& plan) {
    int stages = OneOf(random_, Divisors(pool.node_count));
    int devices = pool.node_count / stages * pool.devices_per_node;
    StagePlan stage = {.pool = pool.name, .node_count = pool.node_count / stages};
    if (!is_equal_ && Below(random_, 3) == 0) {  // parts of nodes
      devices = OneOf(random_, Divisors(pool.devices_per_node));
      stages = pool.node_count * pool.devices_per_node / devices;
      stage.node_count = 1;
      stage.device_count = devices;
    }
    stage.tensor_parallel = OneOf(random_, Divisors(std::min(devices, pool.devices_per_node)));
    stage.context_parallel = is_equal_ ? OneOf(random_, {1, 1, 2}) : 1;
    if (is_equal_ && shape_.has_value()) {
      stage.tensor_parallel = shape_->tensor_parallel;
      stage.context_parallel = shape_->context_parallel;
    }
    stage.data_parallel = std::max(1, devices / stage.tensor_parallel / stage.context_parallel);
    stage.micro_batch_size = std::max(1, sequences_ / stage.data_parallel);
    shape_ = stage;
    plan.stages.insert(plan.stages.end(), static_cast<std::size_t>(stages), stage);
  }

  void SplitLayers(ParallelPlan& plan) {
    const auto stages = static_cast<int>(plan.stages.size());
    for (StagePlan& stage : plan.stages) stage.layer_count = 1;
    const bool is_even = Below(random_, 4) == 0 && problem_.model.layer_count % stages == 0;
    for (int layer = stages; layer < problem_.model.layer_count; ++layer) {
      const int stage = is_even ? layer % stages : Below(random_, plan.stages.size());
      ++plan.stages[static_cast<std::size_t>(stage)].layer_count;
    }
  }

  void Recompute(ParallelPlan& plan) {
    const int form = Below(random_, 4);
    for (StagePlan& stage : plan.stages) {
      if (form == 1) stage.recompute.granularity = RecomputeGranularity::kSelective;
      if (form == 2) stage.recompute.granularity = RecomputeGranularity::kFull;
      if (form != 3) continue;
      const int most = is_equal_ ? 1 : stage.layer_count;
      const int count = is_equal_ ? 1 : Below(random_, static_cast<std::size_t>(most) + 1);
      if (count == 0) continue;
      stage.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {count}};
    }
  }

  const Problem& problem_;
  std::mt19937_64& random_;
  bool is_equal_;  // all stages have one shape
  int sequences_ = 1;
  std::optional<StagePlan> shape_;
};

// Returns the plan with one form for what is the same.
ParallelPlan Expressed(ParallelPlan plan, const Problem& problem) {
  const auto all_are_1 = [&](int StagePlan::*member) {
    return std::ranges::all_of(plan.stages,
                               [&](const StagePlan& stage) { return stage.*member == 1; });
  };
  if (all_are_1(&StagePlan::tensor_parallel)) plan.sequence_parallel = false;
  if (all_are_1(&StagePlan::context_parallel)) {
    plan.context_parallel_kind = ContextParallelKind::kRing;
  }
  for (StagePlan& stage : plan.stages) {
    RecomputePlan& recompute = stage.recompute;
    if (recompute.modules == problem.profile.selective_modules) recompute.modules.clear();
    if (recompute.granularity != RecomputeGranularity::kFull) continue;
    if (recompute.layer_counts.empty()) recompute.layer_counts = {stage.layer_count};
  }
  return plan;
}

absl::StatusOr<ImportedJob> Import(const LaunchConfig& config, const Problem& problem) {
  std::vector<ConfigFile> files = config.other_files;
  files.push_back({config.file_name, config.text});
  ImportRequest request = {.file = "run.sh",
                           .text = config.command,
                           .framework = problem.workload.framework_name,
                           .model = problem.model,
                           .devices = DeviceCount(problem.cluster),
                           .global_batch_size = problem.workload.global_batch_size};
  for (const NodePool& pool : problem.cluster.pools) {
    request.pools.push_back({.name = pool.name,
                             .chip = pool.chip.id,
                             .node_count = pool.node_count,
                             .devices_per_node = pool.devices_per_node});
  }
  if (config.file_name.empty()) request.text += " \\\n" + config.text;
  request.open_file = [&files](const std::string& path) -> absl::StatusOr<std::string> {
    for (const ConfigFile& file : files) {
      if (file.name.ends_with(path) || path.ends_with(file.name)) return file.text;
    }
    return absl::NotFoundError(path);
  };
  return ImportJob(request);
}

class MixedRoundTripTest : public testing::TestWithParam<const char*> {};

// The files of a mixed plan say the whole plan.
TEST_P(MixedRoundTripTest, GivesThePlanBack) {
  const std::string framework = GetParam();
  std::mt19937_64 random(11);
  std::set<std::string> refused;
  // Few plans come from several problems too.
  const int plans_each = std::max(1, MESHWRIGHT_RANDOM_PLANS / 50);
  int done = 0;
  int unequal = 0;
  int parts = 0;
  for (int draw = 0; draw < 1000 * MESHWRIGHT_RANDOM_PLANS && done < MESHWRIGHT_RANDOM_PLANS;
       ++draw) {
    Problem problem = RandomMixedProblem(random);
    if (problem.workload.framework_name != framework) continue;
    if (draw % 3 == 0) AddExperts(problem);
    for (int again = 0; again < plans_each && done < MESHWRIGHT_RANDOM_PLANS; ++again) {
      const ParallelPlan drawn = MixDrawer(problem, random).Draw();
      const auto plan = ResolveLaunchedPlan(StatedPlan(drawn), problem, "plan");
      if (!plan.ok()) continue;
      const auto config = ExportPlan(framework, problem, plan->plan);
      if (!config.ok()) {
        for (const FieldViolation& field : FieldViolations(config.status())) {
          refused.insert(field.field);
        }
        continue;
      }
      ++done;
      const auto job = Import(*config, problem);
      ASSERT_TRUE(job.ok()) << job.status() << "\n" << config->text;
      const auto back = ResolvePlan(job->plan, problem, "plan");
      ASSERT_TRUE(back.ok()) << back.status() << "\n" << config->text;
      ASSERT_EQ(MakePlanKey(Expressed(back->plan, problem)).text,
                MakePlanKey(Expressed(plan->plan, problem)).text)
          << config->text;
      for (const UnusedKey& key : job->unused) ASSERT_NE(key.reason, "") << key.key;
      EXPECT_THAT(job->notes, testing::Not(Contains(HasSubstr("names no pools"))));
      if (drawn.stages.front().tensor_parallel != drawn.stages.back().tensor_parallel) ++unequal;
      const auto is_part = [](const StagePlan& stage) { return stage.device_count > 0; };
      if (std::ranges::any_of(plan->plan.stages, is_part)) ++parts;
    }
  }
  EXPECT_EQ(done, MESHWRIGHT_RANDOM_PLANS);
  EXPECT_EQ(unequal > 0, framework == "flagscale");
  EXPECT_EQ(parts > 0, framework == "flagscale");
  EXPECT_THAT(refused, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, MixedRoundTripTest, testing::Values("flagscale", "megatron-core"),
                         [](const auto& c) {
                           return std::string(c.param) == "flagscale" ? "FlagScale"
                                                                      : "MegatronCore";
                         });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
