#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "estimator/layer/layer_split.h"
#include "estimator/legality/recompute_form.h"
#include "search_space/spec/choices.h"
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

constexpr int kNewestYear = 2024;

constexpr Schedule kSchedules[] = {Schedule::k1f1b, Schedule::kInterleaved1f1b};
constexpr ContextParallelKind kContextKinds[] = {ContextParallelKind::kRing};
constexpr int kZero01[] = {0, 1};
constexpr int kZero0[] = {0};
constexpr RecomputeForm kRecompute[] = {RecomputeForm::kNothing, RecomputeForm::kSelective,
                                        RecomputeForm::kEveryLayer, RecomputeForm::kSomeLayers};
constexpr RecomputeForm kWholeRecompute[] = {RecomputeForm::kNothing, RecomputeForm::kEveryLayer,
                                             RecomputeForm::kSomeLayers};
constexpr Precision kPrecisions[] = {Precision::kBf16, Precision::kFp16, Precision::kFp32};
constexpr Precision kPrecisionsWithFp8[] = {Precision::kBf16, Precision::kFp16, Precision::kFp32,
                                            Precision::kFp8};
constexpr Fp8Recipe kRecipes[] = {Fp8Recipe::kDelayed};
constexpr GradientDtype kGradients[] = {GradientDtype::kFp32, GradientDtype::kFp16};
constexpr Optimizer kOptimizers[] = {Optimizer::kAdam, Optimizer::kSgd};
constexpr AttentionKernel kOldAttention[] = {AttentionKernel::kUnfused,
                                             AttentionKernel::kFusedSoftmax};
constexpr AttentionKernel kAttention[] = {AttentionKernel::kUnfused, AttentionKernel::kFusedSoftmax,
                                          AttentionKernel::kFlash2};
constexpr MlpKind kOldMlps[] = {MlpKind::kGelu};
constexpr MlpKind kMlps[] = {MlpKind::kGelu, MlpKind::kSwiglu};

int YearOf(const Problem& problem) {
  if (problem.workload.framework_name != "megatron-lm") return kNewestYear;
  int year = kNewestYear;
  const std::string& version = problem.workload.framework_version;
  std::from_chars(version.data(), version.data() + version.size(), year);
  return year;
}

Expressible ExpressibleIn(int year) {
  Expressible can = {.framework = "Megatron-LM",
                     .schedules = kSchedules,
                     .zero_stages = kZero01,
                     .recompute = kRecompute,
                     .precisions = kPrecisions,
                     .gradient_dtypes = kGradients,
                     .optimizers = kOptimizers,
                     .attention_kernels = kOldAttention,
                     .dropout = true,
                     .mlps = kOldMlps,
                     .layer_norm = true};
  if (year < 2022) {
    can.sequence_parallel = false;
    can.zero_stages = kZero0;
    can.recompute = kWholeRecompute;
  }
  if (year >= 2023) {
    can.biases = true;
    can.attention_kernels = kAttention;
    can.mlps = kMlps;
    can.tensor_overlap = true;
  }
  if (year >= 2024) {
    can.context_parallel_kinds = kContextKinds;
    can.precisions = kPrecisionsWithFp8;
    can.fp8_recipes = kRecipes;
    can.experts = true;
    can.gathers_tokens = true;
    can.expert_parallel = true;
    can.expert_tensor_parallel = true;
    can.pipeline_inside = true;
  }
  return can;
}

void AddPipeline(const Problem& problem, const ParallelPlan& plan, int year, FlagList& flags) {
  flags.Add("--pipeline-model-parallel-size", plan.pipeline_parallel);
  if (plan.rank_order == RankOrder::kTpCpEpPpDp) flags.Add("--use-tp-pp-dp-mapping");
  const int stages = plan.pipeline_parallel;
  const int layers = problem.model.layer_count;
  if (layers % (stages * plan.virtual_pipeline) != 0) {
    flags.Refuse(
        "plan.pipeline_parallel",
        fmt::format("{} with {} virtual stages; Megatron-LM wants them to divide {} layers", stages,
                    plan.virtual_pipeline, layers));
    return;
  }
  const std::vector<int> split = LayersPerStage(plan, problem.model, problem.profile);
  if (std::ranges::any_of(split, [&](int count) { return count != split.front(); })) {
    flags.Refuse(
        "plan.layers_per_stage",
        fmt::format("[{}]; Megatron-LM gives all stages as many layers", fmt::join(split, ", ")));
  }
  if (plan.virtual_pipeline == 1) return;
  flags.Add("--num-layers-per-virtual-pipeline-stage", layers / stages / plan.virtual_pipeline);
  const bool is_overlapped = problem.workload.overlap.pipeline_p2p;
  if (!is_overlapped && year >= 2023) flags.Add("--no-overlap-p2p-communication");
  if (is_overlapped && year < 2023) {
    flags.Refuse("workload.overlap.pipeline_p2p",
                 fmt::format("true; Megatron-LM of {} has no setting for it", year));
  }
  if (stages == 2 && (!is_overlapped || year < 2023)) {
    flags.Refuse("plan.pipeline_parallel",
                 "2 with virtual stages; Megatron-LM needs more than two stages without overlapped "
                 "sends");
  }
}

void AddSharding(const Problem& problem, const ParallelPlan& plan, int year, FlagList& flags) {
  const Overlap& overlap = problem.workload.overlap;
  if (plan.zero_stage == 1) flags.Add("--use-distributed-optimizer");
  if (plan.data_parallel * plan.context_parallel == 1) return;
  if (overlap.gradient_reduce && year >= 2023) flags.Add("--overlap-grad-reduce");
  const bool gathers = overlap.parameter_gather && plan.zero_stage == 1;
  if (gathers && year >= 2024) flags.Add("--overlap-param-gather");
  if (overlap.gradient_reduce && year < 2023) {
    flags.Refuse("workload.overlap.gradient_reduce",
                 fmt::format("true; Megatron-LM of {} has no setting for it", year));
  }
  if (gathers && (year < 2024 || !overlap.gradient_reduce)) {
    flags.Refuse("workload.overlap.parameter_gather",
                 "true; Megatron-LM overlaps it from 2024 on, together with gradient_reduce");
  }
}

// Selective recomputation is that of the core attention. Versions before 2022 have other names.
void AddRecompute(const Problem& problem, const ParallelPlan& plan, int year, FlagList& flags) {
  switch (RecomputeFormOf(problem, plan)) {
    case RecomputeForm::kNothing:
      return;
    case RecomputeForm::kSelective:
      flags.Add("--recompute-granularity", "selective");
      return;
    case RecomputeForm::kEveryLayer:
    case RecomputeForm::kSomeLayers:
      break;
  }
  if (plan.recompute.granularity == RecomputeGranularity::kSelective ||
      !plan.recompute.selective_layer_counts.empty()) {
    flags.Refuse("plan.recompute", "some layers selectively; Megatron-LM has all of them");
    return;
  }
  FlagList full(flags.refusals());
  AddMegatronFullRecomputeFlags(problem, plan, full);
  for (const Flag& flag : full.flags()) {
    if (year >= 2022) {
      flags.Add(flag.name, flag.value);
    } else if (flag.name != "--recompute-granularity") {
      flags.Add("--activations-checkpoint" + flag.name.substr(sizeof("--recompute") - 1),
                flag.value);
    }
  }
}

void AddModel(const Problem& problem, int year, FlagList& flags) {
  const ModelSpec& model = problem.model;
  flags.Add("--num-layers", model.layer_count);
  flags.Add("--hidden-size", model.hidden_size);
  const int expert_size = model.moe.has_value() ? model.moe->expert_ffn_hidden_size : 0;
  flags.Add("--ffn-hidden-size", expert_size > 0 ? expert_size : model.ffn_hidden_size);
  if (model.mlp == MlpKind::kSwiglu) flags.Add("--swiglu");
  flags.Add("--num-attention-heads", model.attention_head_count);
  if (model.kv_head_count != model.attention_head_count) {
    flags.Add("--group-query-attention");
    flags.Add("--num-query-groups", model.kv_head_count);
    if (year < 2023) {
      flags.Refuse("model.kv_head_count",
                   fmt::format("{}; Megatron-LM of {} has a key-value head for each head",
                               model.kv_head_count, year));
    }
  }
  flags.Add("--kv-channels", model.head_dim);
  // Both flags came with Megatron-Core 0.5 and 0.6, of 2024.
  const bool has_qkv_bias = BiasesOf(model) == LinearBiases::kQkv;
  if (has_qkv_bias) flags.Add("--add-qkv-bias");
  if (model.qk_norm) flags.Add("--qk-layernorm");
  if (year < 2024 && has_qkv_bias) {
    flags.Refuse("model.qkv_bias", fmt::format("true; Megatron-LM of {} has no such biases", year));
  }
  if (year < 2024 && model.qk_norm) {
    flags.Refuse("model.qk_norm", fmt::format("true; Megatron-LM of {} has no such norms", year));
  }
  const bool is_rms = model.norm == NormKind::kRmsnorm;
  if (is_rms) flags.Add("--normalization", "RMSNorm");
  // The releases before 2023 have biases everywhere, and ExpressibleIn says so.
  if (year >= 2023 && BiasesOf(model) != LinearBiases::kAll) flags.Add("--disable-bias-linear");
  if (is_rms) flags.Add("--position-embedding-type", "rope");
  if (year < 2023) RefuseOtherThanGpt(model, fmt::format("Megatron-LM of {}", year), flags);
  if (!model.tied_embeddings) flags.Add("--untie-embeddings-and-output-weights");
  AddMegatronSequenceFlags(problem.workload, flags);
}

// Experts have one size, that of --ffn-hidden-size, in every layer, and are split as the other
// weights are.
void AddExperts(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  if (!problem.model.moe.has_value()) return;
  const MoeSpec& moe = *problem.model.moe;
  flags.Add("--num-experts", moe.expert_count);
  flags.Add("--moe-router-topk", moe.experts_per_token);
  flags.Add("--expert-model-parallel-size", plan.expert_parallel);
  const bool gathers = problem.workload.moe.dispatcher == MoeDispatcher::kAllgather;
  flags.Add("--moe-token-dispatcher-type", gathers ? "allgather" : "alltoall");
  if (problem.workload.grouped_gemm) flags.Add("--moe-grouped-gemm");
  if (moe.shared_expert_ffn_hidden_size > 0 || moe.first_dense_layer_count > 0) {
    flags.Refuse("model.moe",
                 "shared experts or dense layers; Megatron-LM has them as Megatron-Core");
  }
  if (plan.expert_tensor_parallel != plan.tensor_parallel) {
    flags.Refuse("plan.expert_tensor_parallel",
                 fmt::format("{}; Megatron-LM splits experts as the other weights: {}",
                             plan.expert_tensor_parallel, plan.tensor_parallel));
  }
  if (plan.data_parallel % plan.expert_parallel != 0) {
    flags.Refuse("plan.expert_parallel",
                 fmt::format("{}; Megatron-LM wants a divisor of data_parallel = {}",
                             plan.expert_parallel, plan.data_parallel));
  }
}

void AddKernels(const Workload& workload, int year, FlagList& flags) {
  if (workload.precision == Precision::kFp8) {
    flags.Add("--bf16");
    flags.Add("--fp8-format", "hybrid");
  } else {
    AddMegatronPrecisionFlags(workload, flags);
  }
  AddMegatronOptimizerFlags(workload, flags);
  if (workload.attention_kernel == AttentionKernel::kFlash2) flags.Add("--use-flash-attn");
  if (workload.attention_kernel == AttentionKernel::kUnfused) {
    flags.Add("--no-masked-softmax-fusion");
  }
  if (workload.cross_entropy_kernel == KernelFusion::kFused && year < 2024) {
    flags.Refuse("workload.cross_entropy_kernel",
                 fmt::format("fused; Megatron-LM of {} has no fused loss", year));
  }
  AddMegatronFusionFlags(workload, flags);
}

}  // namespace

LaunchConfig ExportMegatronLm(const Problem& problem, const ParallelPlan& plan,
                              Refusals& refusals) {
  const int year = YearOf(problem);
  RefuseInexpressible(problem, plan, ExpressibleIn(year), refusals);
  FlagList flags(refusals);
  AddMegatronTensorFlags(problem, plan, flags);
  AddPipeline(problem, plan, year, flags);
  if (year >= 2024) flags.Add("--context-parallel-size", plan.context_parallel);
  AddMegatronBatchFlags(problem, plan, flags);
  AddSharding(problem, plan, year, flags);
  AddRecompute(problem, plan, year, flags);
  AddModel(problem, year, flags);
  AddExperts(problem, plan, flags);
  AddKernels(problem.workload, year, flags);
  const int parts = 2 * plan.context_parallel;
  if (plan.context_parallel > 1 && problem.workload.sequence_length % parts != 0) {
    flags.Refuse("plan.context_parallel",
                 fmt::format("{}; Megatron-LM wants sequence_length = {} to be a multiple of {}",
                             plan.context_parallel, problem.workload.sequence_length, parts));
  }
  std::vector<std::string> left_out = MegatronLeftOut(problem.model);
  if (std::string facts = StatedFacts(problem.model); !facts.empty()) {
    left_out.push_back(std::move(facts));
  }
  left_out.push_back(
      fmt::format("the vocabulary of {}, which is the tokenizer's: --vocab-file, "
                  "--merge-file",
                  problem.model.vocab_size));
  return {.text = flags.Text(),
          .versions = fmt::format("{}", year),
          .command = MegatronEnvironment(plan) +
                     TorchrunCommand(JobSizeOf(problem, plan), "pretrain_gpt.py"),
          .left_out = std::move(left_out)};
}

}  // namespace meshwright
