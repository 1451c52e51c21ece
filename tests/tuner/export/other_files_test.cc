#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/export/problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Names and choices are those of the sources that server/tuner/export/exporters.h names.

TEST(NanotronTest, Golden) {
  Problem problem = Llama70b("nanotron", "2024");
  problem.workload.overlap = {};
  ParallelPlan plan = DensePlan();
  plan.recompute = {.granularity = RecomputeGranularity::kFull};
  const auto config = ExportPlan("nanotron", problem, plan);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->text, R"(general:
  project: meshwright
  run: plan
parallelism:
  dp: 8
  pp: 4
  tp: 4
  pp_engine: "1f1b"
  tp_mode: REDUCE_SCATTER
  tp_linear_async_communication: false
  recompute_layer: true
model:
  dtype: bfloat16
  make_vocab_size_divisible_by: 1
  model_config:
    is_llama_config: true
    hidden_act: silu
    hidden_size: 8192
    intermediate_size: 28672
    max_position_embeddings: 4096
    num_attention_heads: 64
    num_hidden_layers: 80
    num_key_value_heads: 8
    tie_word_embeddings: false
    vocab_size: 32000
optimizer:
  zero_stage: 1
  accumulate_grad_in_fp32: true
  optimizer_factory:
    name: adamW
tokens:
  sequence_length: 4096
  micro_batch_size: 1
  batch_accumulation_per_replica: 128
)");
  EXPECT_THAT(config->command, HasSubstr(" run_train.py --config-file plan.yaml"));
  EXPECT_THAT(config->left_out, Contains(HasSubstr("rope_theta")));
}

// Stages of 20 layers: only layer 19, the last one of the first stage, keeps its activations.
TEST(PaddleTest, GoldenDense) {
  ParallelPlan plan = DensePlan();
  plan.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {19, 20, 20, 20}};
  const auto config = ExportPlan("paddle", Llama70b("paddle", ""), plan);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->text, R"({
  "per_device_train_batch_size": 1,
  "gradient_accumulation_steps": 128,
  "max_seq_length": 4096,
  "bf16": true,
  "fp16": false,
  "fp16_opt_level": "O2",
  "amp_master_grad": true,
  "optim": "adamw",
  "use_flash_attention": true,
  "use_fused_rms_norm": true,
  "use_fused_rope": true,
  "fuse_attention_qkv": true,
  "fuse_attention_ffn": true,
  "use_fused_head_and_loss_fn": true,
  "tensor_parallel_degree": 4,
  "sequence_parallel": true,
  "pipeline_parallel_degree": 4,
  "virtual_pp_degree": 1,
  "context_parallel_degree": 1,
  "sep_parallel_degree": 1,
  "sharding": "stage1",
  "sharding_parallel_degree": 8,
  "hybrid_parallel_topo_order": "pp_first",
  "pipeline_parallel_config": "enable_sharding_comm_overlap",
  "sharding_parallel_config": "enable_stage1_overlap enable_stage1_broadcast_overlap",
  "recompute": true,
  "recompute_granularity": "full",
  "no_recompute_layers": [
    19
  ],
  "do_train": true
}
)");
  EXPECT_EQ(config->command,
            "python -u -m paddle.distributed.launch --master $MASTER_ADDR:29500 --nnodes 16 "
            "--devices 0,1,2,3,4,5,6,7 run_pretrain.py plan.json");
}

TEST(PaddleTest, GoldenExperts) {
  const ParallelPlan plan = {.data_parallel = 128, .expert_parallel = 8, .zero_stage = 1};
  EXPECT_EQ(Exported("paddle", ExpertProblem("paddle"), plan), R"({
  "per_device_train_batch_size": 1,
  "gradient_accumulation_steps": 8,
  "max_seq_length": 4096,
  "bf16": true,
  "fp16": false,
  "fp16_opt_level": "O2",
  "amp_master_grad": true,
  "optim": "adamw",
  "use_flash_attention": true,
  "use_fused_rms_norm": true,
  "use_fused_rope": true,
  "fuse_attention_qkv": true,
  "fuse_attention_ffn": true,
  "use_fused_head_and_loss_fn": true,
  "tensor_parallel_degree": 1,
  "sequence_parallel": false,
  "pipeline_parallel_degree": 1,
  "virtual_pp_degree": 1,
  "context_parallel_degree": 1,
  "sep_parallel_degree": 1,
  "sharding": "stage1",
  "sharding_parallel_degree": 128,
  "use_expert_parallel": true,
  "expert_parallel_degree": 8,
  "sharding_parallel_config": "enable_stage1_overlap enable_stage1_broadcast_overlap",
  "recompute": false,
  "do_train": true
}
)");
}

// A node has 4 ranks of tensor parallelism and 2 of the 8 ranks of experts, which take theirs from
// the 32 ranks that shard the weights. 2 x 32 sequences on 128 devices are half a sequence each.
TEST(MaxTextTest, GoldenExperts) {
  ParallelPlan plan = ShardedPlan();
  plan.expert_parallel = 8;
  plan.expert_tensor_parallel = 4;
  plan.micro_batch_size = 2;
  EXPECT_EQ(Exported("maxtext", ExpertProblem("maxtext"), plan), R"(base_config: base.yml
hardware: gpu_multiprocess
ici_tensor_sequence_parallelism: 4
ici_context_parallelism: 1
ici_expert_parallelism: 2
ici_fsdp_parallelism: 1
ici_data_parallelism: 1
ici_pipeline_parallelism: 1
dcn_tensor_sequence_parallelism: 1
dcn_context_parallelism: 1
dcn_expert_parallelism: 4
dcn_fsdp_parallelism: 4
dcn_data_parallelism: 1
dcn_pipeline_parallelism: 1
shard_optimizer_over_data: false
per_device_batch_size: 0.5
gradient_accumulation_steps: 16
max_target_length: 4096
dtype: bfloat16
weight_dtype: float32
grad_dtype: float32
quantization: ""
opt_type: adamw
attention: flash
remat_policy: minimal_with_context
dropout_rate: 0.0
model_name: default
decoder_block: mixtral
base_num_decoder_layers: 32
base_emb_dim: 4096
base_mlp_dim: 14336
mlp_activations: [silu, linear]
base_num_query_heads: 32
base_num_kv_heads: 8
head_dim: 128
vocab_size: 32000
logits_via_embedding: false
num_experts: 8
num_experts_per_tok: 2
base_moe_mlp_dim: 14336
)");
}

// Its default is tpu, with which a ring of context parallelism is an error on GPUs.
TEST(MaxTextTest, SaysTheHardware) {
  Problem problem = Llama70b("maxtext", "");
  EXPECT_THAT(Exported("maxtext", problem, ShardedPlan()),
              HasSubstr("\nhardware: gpu_multiprocess\n"));
  problem.cluster.pools.front().node_count = 1;
  const ParallelPlan of_node = {.data_parallel = 8, .zero_stage = 3};
  EXPECT_THAT(Exported("maxtext", problem, of_node), HasSubstr("\nhardware: gpu\n"));
  problem.cluster.pools.front().chip.vendor = "Google";
  EXPECT_THAT(Exported("maxtext", problem, of_node), HasSubstr("\nhardware: tpu\n"));
}

ParallelPlan DeepseekPlan() {
  return {.pipeline_parallel = 4,
          .data_parallel = 64,
          .expert_parallel = 64,
          .zero_stage = 1,
          .recompute = {.granularity = RecomputeGranularity::kSelective,
                        .modules = {"mla_up_proj", "moe_act"}},
          .layers_per_stage = {16, 16, 16, 13}};
}

// These two are further exports of a plan of Megatron-Core. They state all fields of the layout and
// of recomputation, because a recipe may have others.
TEST(MegatronBridgeTest, GoldenExperts) {
  EXPECT_EQ(Exported("megatron-bridge", DeepseekProblem(), DeepseekPlan()),
            R"(mixed_precision: bf16_mixed
model:
  tensor_model_parallel_size: 1
  pipeline_model_parallel_size: 4
  num_layers_in_last_pipeline_stage: 13
  context_parallel_size: 1
  expert_model_parallel_size: 64
  expert_tensor_parallel_size: 1
  moe_token_dispatcher_type: alltoall
  recompute_granularity: selective
  recompute_modules: [mla_up_proj, moe_act]
  seq_length: 4096
  attention_backend: flash
  cross_entropy_loss_fusion: true
  attention_dropout: 0
  hidden_dropout: 0
  sequence_parallel: false
  virtual_pipeline_model_parallel_size: null
  num_layers_in_first_pipeline_stage: null
  account_for_embedding_in_pipeline_split: false
  account_for_loss_in_pipeline_split: false
  pipeline_model_parallel_layout: null
  overlap_p2p_comm: false
  cp_comm_type: null
  hierarchical_context_parallel_sizes: null
  recompute_method: null
  recompute_num_layers: null
  cpu_offloading: false
train:
  micro_batch_size: 1
  global_batch_size: 1024
ddp:
  use_distributed_optimizer: true
  overlap_grad_reduce: true
  overlap_param_gather: true
  use_megatron_fsdp: false
  data_parallel_sharding_strategy: no_shard
  num_distributed_optimizer_instances: 1
  grad_reduce_in_fp32: true
optimizer:
  use_distributed_optimizer: true
  optimizer_cpu_offload: false
  optimizer_offload_fraction: 0.0
dataset:
  sequence_length: 4096
dist:
  use_megatron_fsdp: false
  use_tp_pp_dp_mapping: false
checkpoint:
  ckpt_format: torch_dist
)");
}

TEST(MegatronBridgeTest, ShardedWeightsAccumulateWithoutTheFusedKernel) {
  EXPECT_THAT(Exported("megatron-bridge", Llama70b(), ShardedPlan()),
              HasSubstr("\n  gradient_accumulation_fusion: false\n"));
  EXPECT_THAT(Exported("megatron-bridge", Llama70b(), DensePlan()),
              Not(HasSubstr("gradient_accumulation_fusion")));
}

TEST(NemoTest, GoldenExperts) {
  EXPECT_EQ(Exported("nemo", DeepseekProblem(), DeepseekPlan()), R"(trainer.num_nodes=32 \
trainer.devices=8 \
trainer.plugins=bf16_mixed \
trainer.strategy.tensor_model_parallel_size=1 \
trainer.strategy.pipeline_model_parallel_size=4 \
trainer.strategy.num_layers_in_last_pipeline_stage=13 \
trainer.strategy.context_parallel_size=1 \
trainer.strategy.expert_model_parallel_size=64 \
trainer.strategy.expert_tensor_parallel_size=1 \
model.config.moe_token_dispatcher_type=alltoall \
data.micro_batch_size=1 \
data.global_batch_size=1024 \
trainer.strategy.ddp.use_distributed_optimizer=True \
optim.config.use_distributed_optimizer=True \
trainer.strategy.ddp.overlap_grad_reduce=True \
trainer.strategy.ddp.overlap_param_gather=True \
model.config.recompute_granularity=selective \
model.config.recompute_modules='["mla_up_proj","moe_act"]' \
data.seq_length=4096 \
model.config.attention_backend=flash \
model.config.cross_entropy_loss_fusion=True \
model.config.attention_dropout=0 \
model.config.hidden_dropout=0 \
trainer.strategy.sequence_parallel=False \
trainer.strategy.virtual_pipeline_model_parallel_size=None \
trainer.strategy.num_layers_in_first_pipeline_stage=None \
trainer.strategy.account_for_embedding_in_pipeline_split=False \
trainer.strategy.account_for_loss_in_pipeline_split=False \
trainer.strategy.pipeline_model_parallel_layout=None \
model.config.overlap_p2p_comm=False \
model.config.cp_comm_type=None \
trainer.strategy.num_distributed_optimizer_instances=1 \
trainer.strategy.use_tp_pp_dp_mapping=False \
optim.config.optimizer_cpu_offload=False \
optim.config.optimizer_offload_fraction=0.0 \
model.config.recompute_method=None \
model.config.recompute_num_layers=None \
model.config.cpu_offloading=False \
trainer.strategy.ddp.grad_reduce_in_fp32=True
)");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
