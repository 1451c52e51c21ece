#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
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
#include "server/tuner/export/plan_words.h"
#include "server/tuner/export/text/command_line.h"
#include "server/tuner/export/text/config_text.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

constexpr ContextParallelKind kContextKinds[] = {ContextParallelKind::kRing,
                                                 ContextParallelKind::kAllGather};
constexpr int kZeroStages[] = {0, 2, 3};
constexpr RecomputeForm kRecompute[] = {RecomputeForm::kNothing, RecomputeForm::kEveryLayer};
constexpr Precision kPrecisions[] = {Precision::kBf16, Precision::kFp16, Precision::kFp32};
constexpr GradientDtype kGradients[] = {GradientDtype::kFp32};
constexpr Optimizer kOptimizers[] = {Optimizer::kAdam, Optimizer::kAdam8bit, Optimizer::kSgd};
constexpr AttentionKernel kAttention[] = {AttentionKernel::kUnfused, AttentionKernel::kFlash2,
                                          AttentionKernel::kFlash3, AttentionKernel::kCudnn,
                                          AttentionKernel::kVendor};
constexpr MlpKind kMlps[] = {MlpKind::kGelu,       MlpKind::kSwiglu, MlpKind::kGeglu,
                             MlpKind::kQuickGeglu, MlpKind::kRelu,   MlpKind::kSquaredRelu};

// The model is the script's own.
constexpr Expressible kExpressible = {.framework = "PyTorch FSDP",
                                      .sequence_parallel = false,
                                      .pipeline_parallel = false,
                                      .context_parallel_kinds = kContextKinds,
                                      .zero_stages = kZeroStages,
                                      .zero_groups = true,
                                      .recompute = kRecompute,
                                      .precisions = kPrecisions,
                                      .gradient_dtypes = kGradients,
                                      .optimizers = kOptimizers,
                                      .attention_kernels = kAttention,
                                      .always_overlaps_sharding = true,
                                      .dropout = true,
                                      .mlps = kMlps,
                                      .layer_norm = true,
                                      .experts = true,
                                      .latent_attention = true,
                                      .sliding_window = true,
                                      .any_layers = true};

std::string_view PrecisionName(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
    case Precision::kFp16:
      return Word(precision);
    case Precision::kFp8:
    case Precision::kFp32:
      break;
  }
  return "no";  // fp8 is refused
}

void SetFsdp(const Problem& problem, const ParallelPlan& plan, Json& config) {
  if (plan.zero_stage == 0) return;
  Json& fsdp = config["fsdp_config"];
  fsdp["fsdp_version"] = 2;
  fsdp["fsdp_reshard_after_forward"] = plan.zero_stage == 3;
  fsdp["fsdp_auto_wrap_policy"] = "TRANSFORMER_BASED_WRAP";
  fsdp["fsdp_activation_checkpointing"] =
      RecomputeFormOf(problem, plan) == RecomputeForm::kEveryLayer;
  fsdp["fsdp_cpu_ram_efficient_loading"] = true;
  fsdp["fsdp_offload_params"] = false;
  fsdp["fsdp_state_dict_type"] = "SHARDED_STATE_DICT";
}

void SetParallelism(const ParallelPlan& plan, Json& config, Refusals& refusals) {
  const std::optional<DataRanks> ranks = DataRanksOf(plan);
  if (!ranks.has_value()) {
    refusals.Refuse("plan.zero_group_size",
                    fmt::format("{}; PyTorch FSDP shards over whole groups of context parallelism",
                                plan.zero_group_size));
    return;
  }
  if (plan.zero_stage == 0) {
    if (plan.tensor_parallel * plan.context_parallel > 1) {
      refusals.Refuse(
          "plan.zero_stage",
          "0 with other parallelism; accelerate has tensor and context parallelism with "
          "sharded weights");
    }
    return;
  }
  Json& parallelism = config["parallelism_config"];
  parallelism["parallelism_config_dp_replicate_size"] = ranks->replicas;
  parallelism["parallelism_config_dp_shard_size"] = ranks->shards;
  parallelism["parallelism_config_tp_size"] = plan.tensor_parallel;
  parallelism["parallelism_config_cp_size"] = plan.context_parallel;
  if (plan.context_parallel == 1) return;
  parallelism["parallelism_config_cp_comm_strategy"] =
      plan.context_parallel_kind == ContextParallelKind::kRing ? "alltoall" : "allgather";
}

// Flash attention with sinks is a kernel of the hub (transformers,
// models/gpt_oss/modular_gpt_oss.py: _compatible_flash_implementations).
std::string_view AttentionName(AttentionKernel kernel, const ModelSpec& model) {
  if (model.attention_sinks && kernel == AttentionKernel::kFlash3) {
    return "kernels-community/vllm-flash-attn3";
  }
  switch (kernel) {
    case AttentionKernel::kUnfused:
      return "eager";
    case AttentionKernel::kFlash2:
      return "flash_attention_2";
    case AttentionKernel::kFlash3:
      return "flash_attention_3";
    case AttentionKernel::kCudnn:
    case AttentionKernel::kFusedSoftmax:
    case AttentionKernel::kFlash1:
    case AttentionKernel::kVendor:
      break;
  }
  return "sdpa";  // a fused softmax and flash1 are refused
}

std::string_view OptimizerName(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kAdam:
      return "adamw_torch_fused";
    case Optimizer::kAdam8bit:
      return "adamw_bnb_8bit";
    case Optimizer::kSgd:
      return "sgd";
  }
  return "";
}

// Replicas have no setting in the file. The argument is of transformers.TrainingArguments.
bool RecomputesByArgument(const Problem& problem, const ParallelPlan& plan) {
  return plan.zero_stage == 0 && RecomputeFormOf(problem, plan) == RecomputeForm::kEveryLayer;
}

// Returns the arguments of the script, which are those of transformers.TrainingArguments. Its
// Trainer makes a GradientAccumulationPlugin of its own, so that the variable of `accelerate
// launch` has no effect there (transformers/trainer.py: create_accelerator_and_postprocess).
std::string ScriptArguments(const Problem& problem, const ParallelPlan& plan) {
  const int accumulation = MicroBatchCount(plan, problem.workload.global_batch_size);
  std::string arguments =
      fmt::format("--per_device_train_batch_size {} --gradient_accumulation_steps {}",
                  plan.micro_batch_size, accumulation);
  if (RecomputesByArgument(problem, plan)) arguments += " --gradient_checkpointing";
  return arguments;
}

// The settings that are the script's; the names are those of transformers.TrainingArguments and of
// from_pretrained.
std::vector<std::string> LeftOut(const Problem& problem, const ParallelPlan& plan) {
  const Workload& workload = problem.workload;
  std::vector<std::string> left_out = {
      fmt::format("in the script: sequences of {} tokens, optim = {}, learning_rate, max_steps",
                  workload.sequence_length, OptimizerName(workload.optimizer)),
      fmt::format("in the script: reading {}, as HfArgumentParser does",
                  ScriptArguments(problem, plan)),
      "in the script: the model in fp32 with attn_implementation = " +
          std::string(AttentionName(workload.attention_kernel, problem.model)) + ": " +
          ModelSizes(problem.model),
      "in the script: the model's attention_bias, rope_theta, rope_scaling, rms_norm_eps, norms of "
      "queries and keys, output_router_logits",
      "in the script: data, tokenizer, output_dir, save_steps"};
  if (plan.context_parallel > 1) {
    left_out.emplace_back(
        "in the script: labels that are shifted before the sequence is split, and "
        "accelerator.maybe_context_parallel around each step");
  }
  if (plan.tensor_parallel > 1) {
    left_out.emplace_back("in the script: tp_plan = \"auto\" of from_pretrained");
  }
  if (workload.cross_entropy_kernel == KernelFusion::kFused) {
    left_out.emplace_back("in the script: a fused cross entropy (use_liger_kernel)");
  }
  if (workload.dropout_ratio > 0) {
    left_out.push_back(
        fmt::format("in the script: dropout of {} in the model", workload.dropout_ratio));
  }
  return left_out;
}

}  // namespace

LaunchConfig ExportPyTorchFsdp(const Problem& problem, const ParallelPlan& plan,
                               Refusals& refusals) {
  RefuseInexpressible(problem, plan, kExpressible, refusals);
  const JobSize size = JobSizeOf(problem, plan);
  Json config = Json::object();
  config["compute_environment"] = "LOCAL_MACHINE";
  config["distributed_type"] = plan.zero_stage == 0 ? "MULTI_GPU" : "FSDP";
  config["mixed_precision"] = PrecisionName(problem.workload.precision);
  config["num_machines"] = size.nodes;
  config["num_processes"] = PlanDevices(plan);
  config["rdzv_backend"] = "c10d";
  SetFsdp(problem, plan, config);
  SetParallelism(plan, config, refusals);
  const int accumulation = MicroBatchCount(plan, problem.workload.global_batch_size);
  const std::string meeting =
      size.nodes == 1
          ? ""
          : "--machine_rank $NODE_RANK --main_process_ip $MASTER_ADDR --main_process_port 29500 ";
  return {.text = YamlText(config),
          .file_name = "plan.yaml",
          .versions = "2024 (accelerate 1.10 and later, FSDP 2)",
          .command = fmt::format(
              "ACCELERATE_GRADIENT_ACCUMULATION_STEPS={} accelerate launch --config_file plan.yaml "
              "{}train.py {}",
              accumulation, meeting, ScriptArguments(problem, plan)),
          .left_out = LeftOut(problem, plan)};
}

}  // namespace meshwright
