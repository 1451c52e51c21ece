#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/legality/recompute_form.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/exporters.h"
#include "server/tuner/export/expressible.h"
#include "server/tuner/export/megatron_flags.h"
#include "server/tuner/export/text/command_line.h"
#include "server/tuner/export/text/config_text.h"
#include "server/tuner/export/text/flag_list.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

// Microsoft's fork of later years has more of the model's forms, and is not written here.
constexpr std::string_view kFork =
    "Megatron-DeepSpeed of 2022 (bigscience-workshop/Megatron-DeepSpeed)";

constexpr Schedule kSchedules[] = {Schedule::k1f1b};
constexpr int kZeroStages[] = {0, 1};
constexpr RecomputeForm kRecompute[] = {RecomputeForm::kNothing, RecomputeForm::kEveryLayer};
constexpr Precision kPrecisions[] = {Precision::kBf16, Precision::kFp16, Precision::kFp32};
constexpr GradientDtype kGradients[] = {GradientDtype::kFp32, GradientDtype::kFp16};
constexpr Optimizer kOptimizers[] = {Optimizer::kAdam, Optimizer::kSgd};
constexpr AttentionKernel kAttention[] = {AttentionKernel::kUnfused,
                                          AttentionKernel::kFusedSoftmax};
constexpr MlpKind kMlps[] = {MlpKind::kGelu, MlpKind::kSwiglu, MlpKind::kGeglu};

constexpr Expressible kExpressible = {.framework = "Megatron-DeepSpeed",
                                      .sequence_parallel = false,
                                      .schedules = kSchedules,
                                      .zero_stages = kZeroStages,
                                      .recompute = kRecompute,
                                      .precisions = kPrecisions,
                                      .gradient_dtypes = kGradients,
                                      .optimizers = kOptimizers,
                                      .attention_kernels = kAttention,
                                      .dropout = true,
                                      .mlps = kMlps,
                                      .layer_norm = true};

void AddModel(const ModelSpec& model, FlagList& flags) {
  flags.Add("--num-layers", model.layer_count);
  flags.Add("--hidden-size", model.hidden_size);
  flags.Add("--ffn-hidden-size", model.ffn_hidden_size);
  if (model.mlp != MlpKind::kGelu) flags.Add("--glu-activation", Word(model.mlp));
  flags.Add("--num-attention-heads", model.attention_head_count);
  flags.Add("--kv-channels", model.head_dim);
  if (model.kv_head_count != model.attention_head_count) {
    flags.Refuse("model.kv_head_count", fmt::format("{}; {} has a key-value head for each head",
                                                    model.kv_head_count, kFork));
  }
  RefuseOtherThanGpt(model, kFork, flags);
}

std::string DeepSpeedFile(const Problem& problem, const ParallelPlan& plan) {
  const Workload& workload = problem.workload;
  nlohmann::ordered_json config;
  config["train_batch_size"] = workload.global_batch_size;
  config["train_micro_batch_size_per_gpu"] = plan.micro_batch_size;
  config["zero_optimization"]["stage"] = plan.zero_stage;
  if (plan.zero_stage > 0) {
    config["zero_optimization"]["overlap_comm"] = workload.overlap.gradient_reduce;
  }
  config["bf16"]["enabled"] = workload.precision == Precision::kBf16;
  config["fp16"]["enabled"] = workload.precision == Precision::kFp16;
  return JsonText(config);
}

}  // namespace

LaunchConfig ExportMegatronDeepSpeed(const Problem& problem, const ParallelPlan& plan,
                                     Refusals& refusals) {
  RefuseInexpressible(problem, plan, kExpressible, refusals);
  const Workload& workload = problem.workload;
  FlagList flags(refusals);
  flags.Add("--tensor-model-parallel-size", plan.tensor_parallel);
  flags.Add("--pipeline-model-parallel-size", plan.pipeline_parallel);
  AddMegatronBatchFlags(problem, plan, flags);
  if (RecomputeFormOf(problem, plan) == RecomputeForm::kEveryLayer) {
    flags.Add("--checkpoint-activations");
    flags.Add("--checkpoint-num-layers", 1);
    flags.Add("--deepspeed-activation-checkpointing");
  }
  AddModel(problem.model, flags);
  AddMegatronSequenceFlags(workload, flags);
  if (workload.precision == Precision::kBf16) flags.Add("--bf16");
  if (workload.precision == Precision::kFp16) flags.Add("--fp16");
  flags.Add("--optimizer", Word(workload.optimizer));
  if (workload.attention_kernel == AttentionKernel::kUnfused) {
    flags.Add("--no-masked-softmax-fusion");
  }
  if (workload.cross_entropy_kernel == KernelFusion::kFused) {
    flags.Refuse("workload.cross_entropy_kernel", "fused; Megatron-DeepSpeed has no fused loss");
  }
  flags.Add("--attention-dropout", workload.dropout_ratio);
  flags.Add("--hidden-dropout", workload.dropout_ratio);
  flags.Add("--deepspeed");
  flags.Add("--deepspeed_config", "ds_config.json");
  flags.Add("--zero-stage", plan.zero_stage);
  if (workload.gradient_dtype == GradientDtype::kFp16 && workload.precision != Precision::kFp16) {
    flags.Refuse("workload.gradient_dtype",
                 "fp16 without fp16 training; Megatron-DeepSpeed reduces in the training's type");
  }
  return {
      .text = flags.Text(),
      .versions = "2022 (bigscience-workshop/Megatron-DeepSpeed)",
      .command =
          MegatronEnvironment(plan) + TorchrunCommand(JobSizeOf(problem, plan), "pretrain_gpt.py"),
      .left_out = {fmt::format("data and the tokenizer with its vocabulary of {}: --data-path, "
                               "--vocab-file, --merge-file, --tokenizer-type",
                               problem.model.vocab_size),
                   "length and learning rate: --train-samples or --train-iters, --lr, --min-lr, "
                   "--lr-decay-style, --weight-decay, --clip-grad",
                   "checkpoints: --save, --load, --save-interval",
                   "of the model: --position-embedding-type, --embed-layernorm, "
                   "--layernorm-epsilon, --init-method-std",
                   "in ds_config.json: gradient_clipping, and the loss scale of fp16"},
      .other_files = {{.name = "ds_config.json", .text = DeepSpeedFile(problem, plan)}}};
}

}  // namespace meshwright
