#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/export/problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::Not;

// Names and choices are those of the sources that server/tuner/export/exporters.h names.

TEST(MegatronLmTest, GoldenOf2022) {
  Problem problem = Llama70b("megatron-lm", "2022");
  problem.model = Gpt3_175b();
  problem.workload.overlap = {};
  problem.workload.attention_kernel = AttentionKernel::kFusedSoftmax;
  problem.workload.cross_entropy_kernel = KernelFusion::kUnfused;
  problem.workload.dropout_ratio = 0.1;
  ParallelPlan plan = DensePlan();
  plan.schedule = Schedule::kInterleaved1f1b;
  plan.virtual_pipeline = 3;
  plan.recompute = {.granularity = RecomputeGranularity::kSelective};
  // 96 / (4 x 3) = 8 layers
  EXPECT_EQ(Exported("megatron-lm", problem, plan), R"(--tensor-model-parallel-size 4 \
--sequence-parallel \
--pipeline-model-parallel-size 4 \
--num-layers-per-virtual-pipeline-stage 8 \
--micro-batch-size 1 \
--global-batch-size 1024 \
--use-distributed-optimizer \
--recompute-granularity selective \
--num-layers 96 \
--hidden-size 12288 \
--ffn-hidden-size 49152 \
--num-attention-heads 96 \
--kv-channels 128 \
--seq-length 4096 \
--max-position-embeddings 4096 \
--bf16 \
--accumulate-allreduce-grads-in-fp32 \
--optimizer adam \
--attention-dropout 0.1 \
--hidden-dropout 0.1
)");
  // The flags of recomputation had other names before.
  problem.workload.framework_version = "2021";
  plan.sequence_parallel = false;
  plan.zero_stage = 0;
  plan.recompute = {.granularity = RecomputeGranularity::kFull};
  EXPECT_THAT(Exported("megatron-lm", problem, plan),
              HasSubstr("--activations-checkpoint-method uniform \\\n"
                        "--activations-checkpoint-num-layers 1 \\\n"));
}

TEST(MegatronLmTest, GoldenExperts) {
  const ParallelPlan plan = {.tensor_parallel = 2,
                             .sequence_parallel = true,
                             .data_parallel = 64,
                             .expert_parallel = 8,
                             .expert_tensor_parallel = 2,
                             .zero_stage = 1};
  EXPECT_EQ(Exported("megatron-lm", ExpertProblem("megatron-lm"), plan),
            R"(--tensor-model-parallel-size 2 \
--sequence-parallel \
--pipeline-model-parallel-size 1 \
--context-parallel-size 1 \
--micro-batch-size 1 \
--global-batch-size 1024 \
--use-distributed-optimizer \
--overlap-grad-reduce \
--overlap-param-gather \
--num-layers 32 \
--hidden-size 4096 \
--ffn-hidden-size 14336 \
--swiglu \
--num-attention-heads 32 \
--group-query-attention \
--num-query-groups 8 \
--kv-channels 128 \
--normalization RMSNorm \
--disable-bias-linear \
--position-embedding-type rope \
--untie-embeddings-and-output-weights \
--seq-length 4096 \
--max-position-embeddings 4096 \
--num-experts 8 \
--moe-router-topk 2 \
--expert-model-parallel-size 8 \
--moe-token-dispatcher-type alltoall \
--moe-grouped-gemm \
--bf16 \
--accumulate-allreduce-grads-in-fp32 \
--optimizer adam \
--use-flash-attn \
--cross-entropy-loss-fusion \
--attention-dropout 0 \
--hidden-dropout 0
)");
}

// MindSpeed-LLM's script for Llama 2 13B has RMSNorm and biases: Megatron has a switch for them.
TEST(MegatronFamilyTest, BiasesOfAllLinearLayersAreASwitch) {
  const ParallelPlan plan = {.data_parallel = 128, .zero_stage = 1};
  for (const char* const framework : {"mindspeed", "megatron-lm"}) {
    SCOPED_TRACE(framework);
    Problem problem = Llama70b(framework, "2024");
    if (problem.workload.framework_name == "mindspeed") {
      problem.workload.attention_kernel = AttentionKernel::kVendor;
    }
    EXPECT_THAT(Exported(framework, problem, plan), HasSubstr("--disable-bias-linear"));
    problem.model.biases = LinearBiases::kAll;
    EXPECT_THAT(Exported(framework, problem, plan), HasSubstr("--normalization RMSNorm"));
    EXPECT_THAT(Exported(framework, problem, plan), Not(HasSubstr("bias-linear")));
    problem.model.norm = NormKind::kLayernorm;
    problem.model.biases = LinearBiases::kNone;
    EXPECT_THAT(Exported(framework, problem, plan), HasSubstr("--disable-bias-linear"));
    problem.model.biases = LinearBiases::kAttention;
    EXPECT_THAT(std::string(ExportPlan(framework, problem, plan).status().message()),
                HasSubstr("model.biases = attention"));
  }
}

TEST(MegatronDeepSpeedTest, Golden) {
  Problem problem = Llama70b("megatron-deepspeed", "2022");
  problem.model = Gpt3_175b();
  problem.workload.attention_kernel = AttentionKernel::kFusedSoftmax;
  problem.workload.cross_entropy_kernel = KernelFusion::kUnfused;
  ParallelPlan plan = DensePlan();
  plan.sequence_parallel = false;
  plan.recompute = {.granularity = RecomputeGranularity::kFull};
  const auto config = ExportPlan("megatron-deepspeed", problem, plan);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->text, R"(--tensor-model-parallel-size 4 \
--pipeline-model-parallel-size 4 \
--micro-batch-size 1 \
--global-batch-size 1024 \
--checkpoint-activations \
--checkpoint-num-layers 1 \
--deepspeed-activation-checkpointing \
--num-layers 96 \
--hidden-size 12288 \
--ffn-hidden-size 49152 \
--num-attention-heads 96 \
--kv-channels 128 \
--seq-length 4096 \
--max-position-embeddings 4096 \
--bf16 \
--optimizer adam \
--attention-dropout 0 \
--hidden-dropout 0 \
--deepspeed \
--deepspeed_config ds_config.json \
--zero-stage 1
)");
  ASSERT_EQ(config->other_files.size(), 1U);
  EXPECT_EQ(config->other_files[0].name, "ds_config.json");
  EXPECT_EQ(config->other_files[0].text, R"({
  "train_batch_size": 1024,
  "train_micro_batch_size_per_gpu": 1,
  "zero_optimization": {
    "stage": 1,
    "overlap_comm": true
  },
  "bf16": {
    "enabled": true
  },
  "fp16": {
    "enabled": false
  }
}
)");
}

TEST(MindSpeedTest, GoldenExperts) {
  Problem problem = ExpertProblem("mindspeed");
  problem.workload.attention_kernel = AttentionKernel::kVendor;
  problem.workload.cross_entropy_kernel = KernelFusion::kUnfused;
  // The 8 experts are over 4 ranks of tensor parallelism and 2 of data parallelism.
  const ParallelPlan plan = {
      .tensor_parallel = 4,
      .sequence_parallel = true,
      .pipeline_parallel = 2,
      .data_parallel = 8,
      .context_parallel = 2,
      .expert_parallel = 8,
      .zero_stage = 1,
      .recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {5, 5}},
      .layers_per_stage = {15, 17}};
  EXPECT_EQ(Exported("mindspeed", problem, plan), R"(--use-mcore-models \
--tensor-model-parallel-size 4 \
--sequence-parallel \
--pipeline-model-parallel-size 2 \
--num-layer-list 15,17 \
--context-parallel-size 2 \
--context-parallel-algo megatron_cp_algo \
--micro-batch-size 1 \
--global-batch-size 1024 \
--use-distributed-optimizer \
--overlap-grad-reduce \
--overlap-param-gather \
--recompute-granularity full \
--recompute-method block \
--recompute-num-layers 5 \
--num-layers 32 \
--hidden-size 4096 \
--swiglu \
--num-attention-heads 32 \
--group-query-attention \
--num-query-groups 8 \
--kv-channels 128 \
--normalization RMSNorm \
--disable-bias-linear \
--position-embedding-type rope \
--vocab-size 32000 \
--untie-embeddings-and-output-weights \
--expert-model-parallel-size 2 \
--moe-tp-extend-ep \
--num-experts 8 \
--moe-router-topk 2 \
--moe-ffn-hidden-size 14336 \
--moe-token-dispatcher-type alltoall \
--moe-layer-freq 1 \
--first-k-dense-replace 0 \
--moe-grouped-gemm \
--seq-length 4096 \
--max-position-embeddings 4096 \
--bf16 \
--accumulate-allreduce-grads-in-fp32 \
--optimizer adam \
--use-flash-attn \
--use-fused-rmsnorm \
--use-fused-swiglu \
--use-fused-rotary-pos-emb \
--attention-dropout 0 \
--hidden-dropout 0
)");
}

// The names are those of MindSpeed-LLM's own script for DeepSeek-V3
// (examples/mcore/deepseek3/pretrain_deepseek3_671b_4k_ptd.sh).
TEST(MindSpeedTest, WritesLatentAttentionAndMultiTokenPrediction) {
  Problem problem = DeepseekProblem();
  problem.workload.framework_name = "mindspeed";
  problem.workload.attention_kernel = AttentionKernel::kVendor;
  problem.workload.cross_entropy_kernel = KernelFusion::kUnfused;
  const std::string text = Exported("mindspeed", problem, {.data_parallel = 128, .zero_stage = 1});
  EXPECT_THAT(text, HasSubstr("--num-attention-heads 128 \\\n--normalization RMSNorm"));
  EXPECT_THAT(text, HasSubstr("--mtp-num-layers 1 \\\n--multi-head-latent-attention \\\n"
                              "--q-lora-rank 1536 \\\n--kv-lora-rank 512 \\\n"
                              "--qk-nope-head-dim 128 \\\n--qk-rope-head-dim 64 \\\n"
                              "--v-head-dim 128 \\\n--qk-layernorm \\\n"));
  EXPECT_THAT(text, Not(HasSubstr("--multi-latent-attention")));
}

// 1,024 / 8 = 128 micro-batches. Only the first of the four stages recomputes.
TEST(FlagScaleTest, Golden) {
  ParallelPlan plan = DensePlan();
  plan.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {3, 0, 0, 0}};
  const auto config = ExportPlan("flagscale", Llama70b("flagscale", "0.9"), plan);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->text, R"(system:
  tensor_model_parallel_size: 4
  sequence_parallel: true
  pipeline_model_parallel_size: 4
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
  recompute_num_layers: 3
  recompute_granularity_per_stage_micro_batch: [[1, 128, 1], [1, 128, 0], [1, 128, 0], [1, 128, 0]]
  recompute_method_per_stage_micro_batch: [[1, 128, 1], [1, 128, 0], [1, 128, 0], [1, 128, 0]]
  recompute_num_layers_per_stage_micro_batch: [[1, 128, 3], [1, 128, 0], [1, 128, 0], [1, 128, 0]]
model:
  micro_batch_size: 1
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
  ASSERT_EQ(config->other_files.size(), 1U);
  EXPECT_THAT(
      config->other_files[0].text,
      HasSubstr("  runner:\n    backend: torchrun\n    nnodes: 16\n    nproc_per_node: 8\n"));
  EXPECT_THAT(config->left_out,
              testing::Contains(HasSubstr("data and tokenizer: data_path, tokenizer_type")));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
