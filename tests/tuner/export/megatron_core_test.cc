#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/export/problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

// Every flag checked against megatron/training/arguments.py of Megatron-LM.

TEST(MegatronCoreTest, GoldenDense) {
  ParallelPlan plan = DensePlan();
  // Stages of 80 / 4 = 20 layers, 5 of each recomputed.
  plan.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {5, 5, 5, 5}};
  EXPECT_EQ(Exported("megatron-core", Llama70b(), plan), R"(--tensor-model-parallel-size 4 \
--sequence-parallel \
--pipeline-model-parallel-size 4 \
--context-parallel-size 1 \
--micro-batch-size 1 \
--global-batch-size 1024 \
--use-distributed-optimizer \
--overlap-grad-reduce \
--overlap-param-gather \
--recompute-granularity full \
--recompute-method block \
--recompute-num-layers 5 \
--num-layers 80 \
--hidden-size 8192 \
--ffn-hidden-size 28672 \
--swiglu \
--num-attention-heads 64 \
--group-query-attention \
--num-query-groups 8 \
--kv-channels 128 \
--normalization RMSNorm \
--disable-bias-linear \
--position-embedding-type rope \
--vocab-size 32000 \
--untie-embeddings-and-output-weights \
--seq-length 4096 \
--max-position-embeddings 4096 \
--bf16 \
--accumulate-allreduce-grads-in-fp32 \
--optimizer adam \
--attention-backend flash \
--cross-entropy-loss-fusion \
--attention-dropout 0 \
--hidden-dropout 0
)");
}

TEST(MegatronCoreTest, GoldenExperts) {
  Problem problem = DeepseekProblem();
  problem.workload.precision = Precision::kFp8;
  problem.workload.fp8_recipe = Fp8Recipe::kBlockwise;
  problem.profile.fp8_weights_are_kept = true;
  problem.workload.overlap.pipeline_p2p = true;
  // 61 = 3 x 16 + 13: only the last stage has its own size. 61 - 3 = 58 layers have experts.
  const ParallelPlan plan = {.pipeline_parallel = 4,
                             .data_parallel = 64,
                             .expert_parallel = 64,
                             .zero_stage = 1,
                             .recompute = {.granularity = RecomputeGranularity::kSelective,
                                           .modules = {"mla_up_proj", "moe_act"}},
                             .layers_per_stage = {16, 16, 16, 13}};
  EXPECT_EQ(Exported("megatron-core", problem, plan), R"(--tensor-model-parallel-size 1 \
--pipeline-model-parallel-size 4 \
--decoder-last-pipeline-num-layers 13 \
--context-parallel-size 1 \
--expert-model-parallel-size 64 \
--expert-tensor-parallel-size 1 \
--moe-token-dispatcher-type alltoall \
--micro-batch-size 1 \
--global-batch-size 1024 \
--use-distributed-optimizer \
--overlap-grad-reduce \
--overlap-param-gather \
--fp8-param-gather \
--recompute-granularity selective \
--recompute-modules mla_up_proj moe_act \
--num-layers 61 \
--hidden-size 7168 \
--ffn-hidden-size 18432 \
--swiglu \
--num-attention-heads 128 \
--multi-latent-attention \
--q-lora-rank 1536 \
--kv-lora-rank 512 \
--qk-head-dim 128 \
--qk-pos-emb-head-dim 64 \
--v-head-dim 128 \
--kv-channels 128 \
--qk-layernorm \
--normalization RMSNorm \
--disable-bias-linear \
--position-embedding-type rope \
--vocab-size 129280 \
--untie-embeddings-and-output-weights \
--num-experts 256 \
--moe-router-topk 8 \
--moe-ffn-hidden-size 2048 \
--moe-shared-expert-intermediate-size 2048 \
--moe-layer-freq '([0]*3+[1]*58)' \
--moe-grouped-gemm \
--mtp-num-layers 1 \
--seq-length 4096 \
--max-position-embeddings 4096 \
--bf16 \
--fp8-format e4m3 \
--fp8-recipe blockwise \
--accumulate-allreduce-grads-in-fp32 \
--optimizer adam \
--attention-backend flash \
--cross-entropy-loss-fusion \
--attention-dropout 0 \
--hidden-dropout 0
)");
}

struct Case {
  std::string name;
  std::function<void(Problem&, ParallelPlan&)> change;
  std::string expected;  // in the flags, or in the error
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kExpressible[] = {
    {"virtual_stages",
     [](Problem& p, ParallelPlan& plan) {
       plan.schedule = Schedule::kInterleaved1f1b;
       plan.virtual_pipeline = 5;
       p.workload.overlap.pipeline_p2p = true;
     },
     "--pipeline-model-parallel-size 4 \\\n--num-virtual-stages-per-pipeline-rank 5 \\\n--context"},
    // A virtual stage has 20 / 5 = 4 layers: 2 of each make 10 a stage.
    {"recompute_counts_virtual_stages",
     [](Problem&, ParallelPlan& plan) {
       plan.schedule = Schedule::kInterleaved1f1b;
       plan.virtual_pipeline = 5;
       plan.recompute = {.granularity = RecomputeGranularity::kFull,
                         .layer_counts = {10, 10, 10, 10}};
     },
     "--recompute-method block \\\n--recompute-num-layers 2 \\\n"},
    {"every_layer_recomputed",
     [](Problem&, ParallelPlan& plan) {
       plan.recompute = {.granularity = RecomputeGranularity::kFull,
                         .layer_counts = {20, 20, 20, 20}};
     },
     "--recompute-granularity full \\\n--recompute-method uniform \\\n--recompute-num-layers 1 "
     "\\\n"},
    // The last stage has fewer layers than the 20 that the others recompute.
    {"recompute_more_than_a_stage_has",
     [](Problem&, ParallelPlan& plan) {
       plan.layers_per_stage = {21, 21, 21, 17};
       plan.recompute = {.granularity = RecomputeGranularity::kFull,
                         .layer_counts = {20, 20, 20, 17}};
     },
     "--recompute-num-layers 20 \\\n"},
    {"selective_default_modules",
     [](Problem&, ParallelPlan& plan) {
       plan.recompute = {.granularity = RecomputeGranularity::kSelective};
     },
     "--recompute-granularity selective \\\n--recompute-modules core_attn \\\n"},
    {"both_ends_uneven",
     [](Problem&, ParallelPlan& plan) {
       plan.layers_per_stage = {19, 21, 21, 19};
     },
     "--decoder-first-pipeline-num-layers 19 \\\n--decoder-last-pipeline-num-layers 19 \\\n"},
    // The two that are left get (80 - 40) / 2 each in equal parts, so 22 and 18 need the layout.
    {"uneven_middle",
     [](Problem&, ParallelPlan& plan) {
       plan.layers_per_stage = {20, 22, 18, 20};
     },
     "--pipeline-model-parallel-layout 'Et*20|t*22|t*18|t*20L' \\\n"},
    {"uneven_middle_virtual",
     [](Problem&, ParallelPlan& plan) {
       plan.schedule = Schedule::kInterleaved1f1b;
       plan.virtual_pipeline = 2;
       plan.layers_per_stage = {20, 22, 18, 20};
     },
     "--pipeline-model-parallel-layout 'Et*10|t*11|t*9|t*10|t*10|t*11|t*9|t*10L' \\\n"},
    {"uneven_ends_virtual",
     [](Problem& p, ParallelPlan& plan) {
       plan.schedule = Schedule::kInterleaved1f1b;
       plan.virtual_pipeline = 2;
       plan.layers_per_stage = {18, 22, 22, 18};
       p.workload.overlap.pipeline_p2p = true;
     },
     "--pipeline-model-parallel-size 4 \\\n--num-virtual-stages-per-pipeline-rank 2 \\\n"
     "--decoder-first-pipeline-num-layers 18 \\\n--decoder-last-pipeline-num-layers 18 \\\n"
     "--context"},
    // Virtual stages of 11 layers recompute 10, those of 7 on the last stage all of them.
    {"recompute_more_than_a_virtual_stage_has",
     [](Problem&, ParallelPlan& plan) {
       plan.schedule = Schedule::kInterleaved1f1b;
       plan.virtual_pipeline = 2;
       plan.layers_per_stage = {22, 22, 22, 14};
       plan.recompute = {.granularity = RecomputeGranularity::kFull,
                         .layer_counts = {20, 20, 20, 20}};
     },
     "--recompute-method block \\\n--recompute-num-layers 10 \\\n"},
    {"pipeline_inside",
     [](Problem&, ParallelPlan& plan) { plan.rank_order = RankOrder::kTpCpEpPpDp; },
     "--pipeline-model-parallel-size 4 \\\n--use-tp-pp-dp-mapping \\\n"},
    {"zero2",
     [](Problem&, ParallelPlan& plan) {
       plan.zero_stage = 2;
       plan.pipeline_parallel = 1;
     },
     "--use-megatron-fsdp \\\n--data-parallel-sharding-strategy optim_grads \\\n"
     "--no-gradient-accumulation-fusion \\\n--ckpt-format fsdp_dtensor \\\n"},
    {"zero3_of_an_older_version",
     [](Problem& p, ParallelPlan& plan) {
       p.workload.framework_version = "0.13";
       plan.zero_stage = 3;
     },
     "--use-distributed-optimizer \\\n--use-custom-fsdp \\\n--data-parallel-sharding-strategy "
     "optim_grads_params \\\n--no-gradient-accumulation-fusion \\\n--overlap"},
    // 8 replicas in groups of 4 are two instances.
    {"sharding_group", [](Problem&, ParallelPlan& plan) { plan.zero_group_size = 4; },
     "--num-distributed-optimizer-instances 2 \\\n"},
    {"zero0_gathers_nothing", [](Problem&, ParallelPlan& plan) { plan.zero_stage = 0; },
     "--global-batch-size 1024 \\\n--overlap-grad-reduce \\\n--num-layers"},
    {"ulysses",
     [](Problem&, ParallelPlan& plan) {
       plan.context_parallel = 2;
       plan.context_parallel_kind = ContextParallelKind::kUlysses;
     },
     "--context-parallel-size 2 \\\n--cp-comm-type a2a \\\n"},
    {"mxfp8",
     [](Problem& p, ParallelPlan&) {
       p.workload.precision = Precision::kFp8;
       p.workload.fp8_recipe = Fp8Recipe::kMxfp8;
       p.workload.overlap.parameter_gather = false;
       p.profile.fp8_weights_are_kept = true;
     },
     "--fp8-param-gather \\\n--reuse-grad-buf-for-mxfp8-param-ag \\\n"},
    {"hybrid_context",  // 64 heads, t = 4: the two ranks of a node exchange 8 heads each
     [](Problem& p, ParallelPlan& plan) {
       p.cluster.pools = {{.node_count = 16, .devices_per_node = 8}};
       plan.context_parallel = 4;
       plan.context_parallel_kind = ContextParallelKind::kHybrid;
     },
     "--context-parallel-size 4 \\\n--cp-comm-type a2a+p2p \\\n"
     "--hierarchical-context-parallel-sizes 2 2 \\\n"},
    {"tensor_overlap", [](Problem& p, ParallelPlan&) { p.workload.overlap.tensor_parallel = true; },
     "--sequence-parallel \\\n--tp-comm-overlap \\\n"},
    {"fp16_gradients",
     [](Problem& p, ParallelPlan&) {
       p.workload.precision = Precision::kFp16;
       p.workload.gradient_dtype = GradientDtype::kFp16;
     },
     "--fp16 \\\n--optimizer adam \\\n"},
    {"bf16_gradients",
     [](Problem& p, ParallelPlan&) { p.workload.gradient_dtype = GradientDtype::kBf16; },
     "--bf16 \\\n--grad-reduce-in-bf16 \\\n"},
    {"gpt",
     [](Problem& p, ParallelPlan&) {
       p.model.mlp = MlpKind::kGelu;
       p.model.norm = NormKind::kLayernorm;
       p.model.tied_embeddings = true;
       p.model.kv_head_count = p.model.attention_head_count;
     },
     "--ffn-hidden-size 28672 \\\n--num-attention-heads 64 \\\n--kv-channels 128 \\\n"
     "--normalization LayerNorm \\\n--vocab-size 32000 \\\n--seq-length 4096 \\\n"},
    {"sliding_window", [](Problem& p, ParallelPlan&) { p.model.sliding_window = 1024; },
     "--window-size 1023,0 \\\n"},
    {"offload", [](Problem&, ParallelPlan& plan) { plan.optimizer_offload_ratio = 0.5; },
     "--optimizer-cpu-offload \\\n--optimizer-offload-fraction 0.5 \\\n"
     "--use-precision-aware-optimizer \\\n"},
    {"deepep",
     [](Problem& p, ParallelPlan& plan) {
       p.model = DeepseekProblem().model;
       plan.expert_parallel = 8;
       p.profile.name = "megatron-core";
       p.workload.framework_version = "0.14";
       p.workload.moe = {.dispatcher = MoeDispatcher::kDeepep, .capacity_factor = 1.5};
     },
     "--moe-token-dispatcher-type flex \\\n--moe-enable-deepep \\\n"
     "--moe-expert-capacity-factor 1.5 \\\n"},
    {"hybridep_behind_another_micro_batch",
     [](Problem& p, ParallelPlan& plan) {
       p.model = DeepseekProblem().model;
       plan.expert_parallel = 8;
       plan.schedule = Schedule::kInterleaved1f1b;
       plan.virtual_pipeline = 2;
       p.workload.framework_version = "0.15";
       p.workload.moe.dispatcher = MoeDispatcher::kHybridep;
       p.workload.overlap.expert_parallel = true;
     },
     "--moe-token-dispatcher-type flex \\\n--moe-flex-dispatcher-backend hybridep \\\n"
     "--overlap-moe-expert-parallel-comm \\\n"},
    {"deepep_of_undivided_experts",
     [](Problem& p, ParallelPlan& plan) {
       p.model = DeepseekProblem().model;
       plan.expert_parallel = plan.expert_tensor_parallel = 1;
       p.workload.moe.dispatcher = MoeDispatcher::kDeepep;
     },
     "--moe-token-dispatcher-type alltoall \\\n"},
    {"activation_offload",  // half of 80 layers
     [](Problem&, ParallelPlan& plan) {
       plan.pipeline_parallel = 1;
       plan.layers_per_stage = {80};
       plan.recompute = {};
       plan.activation_offload_ratio = 0.5;
     },
     "--cpu-offloading-num-layers 40 \\\n"},
};

class MegatronCoreHas : public testing::TestWithParam<Case> {};

TEST_P(MegatronCoreHas, TheFlags) {
  Problem problem = Llama70b();
  ParallelPlan plan = DensePlan();
  GetParam().change(problem, plan);
  EXPECT_THAT(Exported("megatron-core", problem, plan), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(All, MegatronCoreHas, testing::ValuesIn(kExpressible),
                         [](const auto& c) { return c.param.name; });

const Case kRefused[] = {
    {"counts_differ",
     [](Problem&, ParallelPlan& plan) {
       plan.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {5, 4, 3, 2}};
     },
     "plan.recompute.layer_counts = [5, 4, 3, 2]"},
    {"count_of_half_virtual_stages",
     [](Problem&, ParallelPlan& plan) {
       plan.schedule = Schedule::kInterleaved1f1b;
       plan.virtual_pipeline = 5;
       plan.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {7, 7, 7, 7}};
     },
     "plan.recompute.layer_counts = [7, 7, 7, 7] with 5 virtual stages"},
    {"mixed",
     [](Problem&, ParallelPlan& plan) {
       plan.recompute = {.granularity = RecomputeGranularity::kFull,
                         .layer_counts = {5, 5, 0, 0},
                         .selective_layer_counts = {1, 2, 3, 4}};
     },
     "plan.recompute.selective_layer_counts = [1, 2, 3, 4]; Megatron-Core recomputes layers fully "
     "or selectively"},
    {"selective_by_count",
     [](Problem&, ParallelPlan& plan) {
       plan.recompute = {.granularity = RecomputeGranularity::kSelective,
                         .layer_counts = {5, 5, 5, 5}};
     },
     "plan.recompute.layer_counts = [5, 5, 5, 5] with selective"},
    {"unknown_module",
     [](Problem&, ParallelPlan& plan) {
       plan.recompute = {.granularity = RecomputeGranularity::kSelective, .modules = {"router"}};
     },
     "plan.recompute.modules = router; Megatron-Core has core_attn"},
    {"activation_offload",
     [](Problem&, ParallelPlan& plan) {
       plan.recompute = {};
       plan.activation_offload_ratio = 0.5;
     },
     "plan.activation_offload_ratio = 0.5 with 4 pipeline stages and recompute none"},
    {"whole_weights", [](Problem&, ParallelPlan& plan) { plan.whole_weights_ratio = 0.5; },
     "plan.whole_weights_ratio = 0.5; Megatron-Core shards"},
    {"schedule", [](Problem&, ParallelPlan& plan) { plan.schedule = Schedule::kZbV; },
     "plan.schedule = zb_v"},
    {"experts_over_pipelines_inside",
     [](Problem& p, ParallelPlan& plan) {
       p.model = DeepseekProblem().model;
       plan.expert_parallel = 8;
       plan.rank_order = RankOrder::kTpCpEpPpDp;
     },
     "plan.rank_order = tp-cp-ep-pp-dp with expert x expert_tensor = 8"},
    {"hybridep_before_0_15",
     [](Problem& p, ParallelPlan& plan) {
       p.model = DeepseekProblem().model;
       plan.expert_parallel = 8;
       p.profile.name = "megatron-core";
       p.workload.framework_version = "0.14";
       p.workload.moe.dispatcher = MoeDispatcher::kHybridep;
     },
     "workload.moe.dispatcher = hybridep; Megatron-Core has it from 0.15 on"},
    {"exchange_behind_a_pipeline_of_whole_stages",
     [](Problem& p, ParallelPlan& plan) {
       p.model = DeepseekProblem().model;
       plan.expert_parallel = 8;
       p.workload.framework_version = "0.14";
       p.workload.overlap.expert_parallel = true;
     },
     "workload.overlap.expert_parallel = true; Megatron-Core needs virtual stages"},
    {"shared_experts_behind_deepep",
     [](Problem& p, ParallelPlan& plan) {
       p.model = DeepseekProblem().model;
       plan.expert_parallel = 8;
       p.workload.moe.dispatcher = MoeDispatcher::kDeepep;
       p.workload.overlap.shared_expert = true;
     },
     "workload.overlap.shared_expert = true with deepep"},
    {"dispatch_in_8_bits",
     [](Problem& p, ParallelPlan& plan) {
       p.model = DeepseekProblem().model;
       plan.expert_parallel = 8;
       p.workload.moe.dispatch_dtype = DispatchDtype::kFp8;
     },
     "workload.moe.dispatch_dtype = fp8"},
    {"uneven_virtual_stages",
     [](Problem& p, ParallelPlan& plan) {
       p.workload.framework_version = "0.12";
       plan.schedule = Schedule::kInterleaved1f1b;
       plan.virtual_pipeline = 3;
     },
     "plan.virtual_pipeline = 3 with [20, 20, 20, 20]"},
    {"uneven_ends_that_chunks_do_not_divide",
     [](Problem& p, ParallelPlan& plan) {
       p.workload.framework_version = "0.12";
       plan.schedule = Schedule::kInterleaved1f1b;
       plan.virtual_pipeline = 2;
       plan.layers_per_stage = {19, 21, 21, 19};
     },
     "plan.virtual_pipeline = 2 with [19, 21, 21, 19]"},
    {"context_of_a_short_sequence",
     [](Problem& p, ParallelPlan& plan) {
       p.workload.sequence_length = 4100;  // 8 x 512.5
       plan.context_parallel = 4;
     },
     "plan.context_parallel = 4; Megatron-Core wants sequence_length = 4100"},
    {"mixed_cluster",
     [](Problem&, ParallelPlan& plan) {
       plan.stages = {{.pool = "a"}, {.pool = "b", .tensor_parallel = 2}};
     },
     "plan.stages[1].tensor_parallel = 2; megatron-core gives all stages that of the first, 1"},
    {"flash1",
     [](Problem& p, ParallelPlan&) { p.workload.attention_kernel = AttentionKernel::kFlash1; },
     "workload.attention_kernel = flash1"},
    {"unfused_norm",
     [](Problem& p, ParallelPlan&) { p.workload.norm_kernel = KernelFusion::kUnfused; },
     "workload.norm_kernel = unfused"},
    {"adam8bit", [](Problem& p, ParallelPlan&) { p.workload.optimizer = Optimizer::kAdam8bit; },
     "workload.optimizer = adam8bit"},
    {"rowwise",
     [](Problem& p, ParallelPlan&) {
       p.workload.precision = Precision::kFp8;
       p.workload.fp8_recipe = Fp8Recipe::kRowwise;
     },
     "workload.fp8_recipe = rowwise"},
    {"geglu", [](Problem& p, ParallelPlan&) { p.model.mlp = MlpKind::kGeglu; },
     "model.mlp = geglu"},
    {"gather_alone", [](Problem& p, ParallelPlan&) { p.workload.overlap.gradient_reduce = false; },
     "workload.overlap.parameter_gather = true without gradient_reduce"},
    {"two_at_once",
     [](Problem& p, ParallelPlan& plan) {
       p.workload.optimizer = Optimizer::kAdam8bit;
       plan.schedule = Schedule::kGpipe;
     },
     "2 invalid fields: plan.schedule = gpipe"},
};

class MegatronCoreRefuses : public testing::TestWithParam<Case> {};

TEST_P(MegatronCoreRefuses, NamesTheField) {
  Problem problem = Llama70b();
  ParallelPlan plan = DensePlan();
  GetParam().change(problem, plan);
  const auto text = ExportPlan("megatron-core", problem, plan);
  ASSERT_FALSE(text.ok()) << text->text;
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Reason(text.status()), "NOT_EXPRESSIBLE");
  EXPECT_THAT(std::string(text.status().message()), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(All, MegatronCoreRefuses, testing::ValuesIn(kRefused),
                         [](const auto& c) { return c.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
