#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/legality/recompute_form.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/all_equal.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/exporters.h"
#include "server/tuner/export/expressible.h"
#include "server/tuner/export/megatron_flags.h"
#include "server/tuner/export/text/command_line.h"
#include "server/tuner/export/text/flag_list.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

constexpr Schedule kSchedules[] = {Schedule::k1f1b, Schedule::kInterleaved1f1b};
constexpr ContextParallelKind kContextKinds[] = {
    ContextParallelKind::kRing, ContextParallelKind::kUlysses, ContextParallelKind::kHybrid};
constexpr int kZeroStages[] = {0, 1};
constexpr RecomputeForm kRecompute[] = {RecomputeForm::kNothing, RecomputeForm::kSelective,
                                        RecomputeForm::kEveryLayer, RecomputeForm::kSomeLayers};
constexpr Precision kPrecisions[] = {Precision::kBf16, Precision::kFp16, Precision::kFp32};
constexpr GradientDtype kGradients[] = {GradientDtype::kFp32, GradientDtype::kBf16,
                                        GradientDtype::kFp16};
constexpr Optimizer kOptimizers[] = {Optimizer::kAdam, Optimizer::kSgd};
constexpr AttentionKernel kAttention[] = {AttentionKernel::kUnfused, AttentionKernel::kFlash2,
                                          AttentionKernel::kVendor};
constexpr MlpKind kMlps[] = {MlpKind::kGelu, MlpKind::kSwiglu};

constexpr Expressible kExpressible = {.framework = "MindSpeed",
                                      .schedules = kSchedules,
                                      .layers_per_stage = true,
                                      .context_parallel_kinds = kContextKinds,
                                      .expert_parallel = true,
                                      .expert_tensor_parallel = true,
                                      .zero_stages = kZeroStages,
                                      .recompute = kRecompute,
                                      .precisions = kPrecisions,
                                      .gradient_dtypes = kGradients,
                                      .optimizers = kOptimizers,
                                      .attention_kernels = kAttention,
                                      .tensor_overlap = true,
                                      .dropout = true,
                                      .mlps = kMlps,
                                      .layer_norm = true,
                                      .biases = true,
                                      .experts = true,
                                      .gathers_tokens = true,
                                      .latent_attention = true,
                                      .multi_token_prediction = true};

void AddTensor(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  flags.Add("--tensor-model-parallel-size", plan.tensor_parallel);
  if (plan.tensor_parallel == 1) return;
  if (plan.sequence_parallel) flags.Add("--sequence-parallel");
  if (!problem.workload.overlap.tensor_parallel) return;
  flags.Add("--use-ascend-mc2");
  if (!plan.sequence_parallel) {
    flags.Refuse("workload.overlap.tensor_parallel",
                 "true; MindSpeed overlaps it with sequence parallelism only");
  }
}

void AddPipeline(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  flags.Add("--pipeline-model-parallel-size", plan.pipeline_parallel);
  if (plan.pipeline_parallel == 1) return;
  const std::vector<int> layers = StageLayers(problem, plan);
  if (plan.virtual_pipeline == 1) {
    if (!AllEqual(layers)) {
      flags.Add("--num-layer-list", fmt::format("{}", fmt::join(layers, ",")));
    }
    return;
  }
  if (!AllEqual(layers) || layers.front() % plan.virtual_pipeline != 0) {
    flags.Refuse("plan.virtual_pipeline",
                 fmt::format("{} with [{}] layers per stage; MindSpeed wants equal virtual stages",
                             plan.virtual_pipeline, fmt::join(layers, ", ")));
    return;
  }
  flags.Add("--num-layers-per-virtual-pipeline-stage", layers.front() / plan.virtual_pipeline);
  if (problem.workload.overlap.pipeline_p2p) return;
  flags.Add("--no-overlap-p2p-communication");
  if (plan.pipeline_parallel == 2) {
    flags.Refuse("workload.overlap.pipeline_p2p",
                 "false with two interleaved stages; MindSpeed needs more than two");
  }
}

void AddContext(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  flags.Add("--context-parallel-size", plan.context_parallel);
  if (plan.context_parallel == 1) return;
  switch (plan.context_parallel_kind) {
    case ContextParallelKind::kRing:
      flags.Add("--context-parallel-algo", "megatron_cp_algo");
      break;
    case ContextParallelKind::kUlysses:
      flags.Add("--context-parallel-algo", "ulysses_cp_algo");
      break;
    case ContextParallelKind::kHybrid:
      flags.Add("--context-parallel-algo", "hybrid_cp_algo");
      flags.Add("--ulysses-degree-in-cp",
                HybridExchangeRanks(plan.context_parallel, plan.tensor_parallel,
                                    ExchangedHeads(problem.model, plan.tensor_parallel),
                                    ScaleUpDeviceCount(problem.cluster.pools.front())));
      break;
    case ContextParallelKind::kAllGather:
      break;  // refused
  }
  const int parts =
      plan.context_parallel * (plan.context_parallel_kind == ContextParallelKind::kUlysses ? 1 : 2);
  if (problem.workload.sequence_length % parts != 0) {
    flags.Refuse("plan.context_parallel",
                 fmt::format("{}; MindSpeed wants sequence_length = {} to be a multiple of {}",
                             plan.context_parallel, problem.workload.sequence_length, parts));
  }
}

void AddSharding(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  const Overlap& overlap = problem.workload.overlap;
  if (plan.zero_stage == 1) flags.Add("--use-distributed-optimizer");
  if (overlap.gradient_reduce) flags.Add("--overlap-grad-reduce");
  if (!overlap.parameter_gather || plan.zero_stage == 0) return;
  flags.Add("--overlap-param-gather");
  if (!overlap.gradient_reduce) {
    flags.Refuse("workload.overlap.parameter_gather",
                 "true without gradient_reduce; MindSpeed overlaps both or only the reduction");
  }
}

// The number of layers is that of each stage, not of each virtual stage as in Megatron-Core.
void AddRecompute(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  const std::vector<int>& counts = plan.recompute.layer_counts;
  switch (RecomputeFormOf(problem, plan)) {
    case RecomputeForm::kNothing:
      return;
    case RecomputeForm::kSelective:
      flags.Add("--recompute-granularity", "selective");
      return;
    case RecomputeForm::kEveryLayer:
      flags.Add("--recompute-granularity", "full");
      flags.Add("--recompute-method", "uniform");
      flags.Add("--recompute-num-layers", 1);
      return;
    case RecomputeForm::kSomeLayers:
      break;
  }
  const bool is_one_count = AllEqual(counts) && plan.recompute.selective_layer_counts.empty() &&
                            plan.recompute.granularity == RecomputeGranularity::kFull;
  if (!is_one_count) {
    flags.Refuse("plan.recompute.layer_counts",
                 fmt::format("[{}]; MindSpeed recomputes one number of layers in every stage",
                             fmt::join(counts, ", ")));
    return;
  }
  flags.Add("--recompute-granularity", "full");
  flags.Add("--recompute-method", "block");
  flags.Add("--recompute-num-layers", counts.front());
  if (plan.virtual_pipeline > 1) flags.Add("--enable-recompute-layers-per-pp-rank");
}

// Experts take their ranks from data and context parallelism. They are split as the other weights
// are, or whole on each of the ranks of tensor parallelism too.
void AddExperts(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  if (!problem.model.moe.has_value()) return;
  const MoeSpec& moe = *problem.model.moe;
  const bool is_split_alike = plan.expert_tensor_parallel == plan.tensor_parallel;
  const int shared_ranks = is_split_alike ? 1 : plan.tensor_parallel;
  flags.Add("--expert-model-parallel-size", plan.expert_parallel / shared_ranks);
  if (!is_split_alike) flags.Add("--moe-tp-extend-ep");
  if (!is_split_alike &&
      (plan.expert_tensor_parallel != 1 || plan.expert_parallel % shared_ranks != 0)) {
    flags.Refuse(
        "plan.expert_tensor_parallel",
        fmt::format("{} with expert_parallel = {}; MindSpeed has the tensor parallelism of "
                    "the other weights, or 1 with experts over all of its {} ranks",
                    plan.expert_tensor_parallel, plan.expert_parallel, plan.tensor_parallel));
  }
  const int replicas = plan.data_parallel * plan.context_parallel;
  if (replicas % std::max(1, plan.expert_parallel / shared_ranks) != 0) {
    flags.Refuse("plan.expert_parallel",
                 fmt::format("{}; MindSpeed wants a divisor of data x context parallel = {}",
                             plan.expert_parallel, replicas));
  }
  if (plan.expert_parallel > 1 && problem.workload.precision == Precision::kFp16) {
    flags.Refuse("plan.expert_parallel",
                 fmt::format("{} with fp16; Megatron-Core has no expert parallelism in fp16",
                             plan.expert_parallel));
  }
  flags.Add("--num-experts", moe.expert_count);
  flags.Add("--moe-router-topk", moe.experts_per_token);
  flags.Add("--moe-ffn-hidden-size", moe.expert_ffn_hidden_size);
  const bool gathers = problem.workload.moe.dispatcher == MoeDispatcher::kAllgather;
  flags.Add("--moe-token-dispatcher-type", gathers ? "allgather" : "alltoall");
  flags.Add("--moe-layer-freq", 1);
  flags.Add("--first-k-dense-replace", moe.first_dense_layer_count);
  if (moe.shared_expert_ffn_hidden_size > 0) {
    flags.Add("--n-shared-experts", moe.shared_expert_ffn_hidden_size / moe.expert_ffn_hidden_size);
    if (moe.shared_expert_ffn_hidden_size % moe.expert_ffn_hidden_size != 0) {
      flags.Refuse("model.moe.shared_expert_ffn_hidden_size",
                   fmt::format("{}; MindSpeed counts shared experts of {}",
                               moe.shared_expert_ffn_hidden_size, moe.expert_ffn_hidden_size));
    }
  }
  if (problem.workload.grouped_gemm) flags.Add("--moe-grouped-gemm");
}

// The names are those of examples/mcore/deepseek3 of MindSpeed-LLM. Its latent attention has no
// --kv-channels.
void AddModel(const Problem& problem, FlagList& flags) {
  ModelSpec plain = problem.model;  // the flags of experts and latent attention are MindSpeed's own
  plain.moe.reset();
  plain.mla.reset();
  if (problem.model.mla.has_value()) plain.kv_head_count = plain.attention_head_count;
  FlagList of_megatron(flags.refusals());
  AddMegatronModelFlags(plain, problem.workload, of_megatron);
  for (const Flag& flag : of_megatron.flags()) {
    const bool is_replaced = problem.model.mla.has_value() && flag.name == "--kv-channels";
    if (!is_replaced) flags.Add(flag.name, flag.value);
  }
  if (!problem.model.mla.has_value()) return;
  const MlaSpec& mla = *problem.model.mla;
  flags.Add("--multi-head-latent-attention");
  if (mla.q_lora_rank > 0) flags.Add("--q-lora-rank", mla.q_lora_rank);
  flags.Add("--kv-lora-rank", mla.kv_lora_rank);
  flags.Add("--qk-nope-head-dim", mla.qk_nope_head_dim);
  flags.Add("--qk-rope-head-dim", mla.qk_rope_head_dim);
  flags.Add("--v-head-dim", mla.v_head_dim);
  flags.Add("--qk-layernorm");
}

void AddKernels(const Problem& problem, FlagList& flags) {
  const Workload& workload = problem.workload;
  AddMegatronPrecisionFlags(workload, flags);
  AddMegatronOptimizerFlags(workload, flags);
  if (workload.attention_kernel != AttentionKernel::kUnfused) flags.Add("--use-flash-attn");
  if (workload.norm_kernel == KernelFusion::kFused && problem.model.norm == NormKind::kRmsnorm) {
    flags.Add("--use-fused-rmsnorm");
  }
  if (problem.profile.activation_is_fused && problem.model.mlp == MlpKind::kSwiglu) {
    flags.Add("--use-fused-swiglu");
  }
  if (problem.profile.rotary_is_fused && problem.model.norm == NormKind::kRmsnorm) {
    flags.Add("--use-fused-rotary-pos-emb");
  }
  if (workload.cross_entropy_kernel == KernelFusion::kFused) {
    flags.Add("--cross-entropy-loss-fusion");
  }
  flags.Add("--attention-dropout", workload.dropout_ratio);
  flags.Add("--hidden-dropout", workload.dropout_ratio);
}

}  // namespace

LaunchConfig ExportMindSpeed(const Problem& problem, const ParallelPlan& plan, Refusals& refusals) {
  RefuseInexpressible(problem, plan, kExpressible, refusals);
  FlagList flags(refusals);
  flags.Add("--use-mcore-models");
  AddTensor(problem, plan, flags);
  AddPipeline(problem, plan, flags);
  AddContext(problem, plan, flags);
  AddMegatronBatchFlags(problem, plan, flags);
  AddSharding(problem, plan, flags);
  AddRecompute(problem, plan, flags);
  AddModel(problem, flags);
  AddExperts(problem, plan, flags);
  AddMegatronSequenceFlags(problem.workload, flags);
  AddKernels(problem, flags);
  std::vector<std::string> left_out = MegatronLeftOut(problem.model);
  if (std::string facts = StatedFacts(problem.model); !facts.empty()) {
    left_out.push_back(std::move(facts));
  }
  left_out.front() = "data and tokenizer: --data-path, --tokenizer-type, --tokenizer-name-or-path";
  if (problem.model.mtp_layer_count > 0) {
    left_out.emplace_back(
        "before MindSpeed-LLM 2.1: --num-nextn-predict-layers for "
        "--mtp-num-layers");
  }
  if (problem.model.moe.has_value() || problem.model.mla.has_value()) {
    left_out.emplace_back("of the model: --spec, for one whose layers are not those of Megatron");
  }
  return {.text = flags.Text(),
          .versions = "2024 (MindSpeed-LLM 2.0)",
          .command = MegatronEnvironment(plan) +
                     TorchrunCommand(JobSizeOf(problem, plan), "pretrain_gpt.py"),
          .left_out = std::move(left_out)};
}

}  // namespace meshwright
