#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/legality/recompute_form.h"
#include "search_space/spec/choices.h"
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

constexpr Schedule kSchedules[] = {Schedule::k1f1b};
constexpr ContextParallelKind kContextKinds[] = {ContextParallelKind::kUlysses};
constexpr int kZeroStages[] = {0, 1, 2, 3};
constexpr RecomputeForm kRecompute[] = {RecomputeForm::kNothing, RecomputeForm::kEveryLayer};
constexpr Precision kPrecisions[] = {Precision::kBf16, Precision::kFp16, Precision::kFp32};
constexpr GradientDtype kGradients[] = {GradientDtype::kFp32, GradientDtype::kBf16,
                                        GradientDtype::kFp16};
constexpr Optimizer kOptimizers[] = {Optimizer::kAdam, Optimizer::kAdam8bit, Optimizer::kSgd};
constexpr AttentionKernel kAttention[] = {AttentionKernel::kUnfused, AttentionKernel::kFlash2,
                                          AttentionKernel::kFlash3, AttentionKernel::kCudnn};
constexpr MlpKind kMlps[] = {MlpKind::kGelu,       MlpKind::kSwiglu, MlpKind::kGeglu,
                             MlpKind::kQuickGeglu, MlpKind::kRelu,   MlpKind::kSquaredRelu};

// The model is the script's own.
constexpr Expressible kExpressible = {.framework = "DeepSpeed",
                                      .sequence_parallel = false,
                                      .schedules = kSchedules,
                                      .context_parallel_kinds = kContextKinds,
                                      .expert_parallel = true,
                                      .zero_stages = kZeroStages,
                                      .zero_groups = true,
                                      .optimizer_offload = true,
                                      .recompute = kRecompute,
                                      .precisions = kPrecisions,
                                      .gradient_dtypes = kGradients,
                                      .optimizers = kOptimizers,
                                      .attention_kernels = kAttention,
                                      .dropout = true,
                                      .mlps = kMlps,
                                      .layer_norm = true,
                                      .experts = true,
                                      .latent_attention = true,
                                      .sliding_window = true,
                                      .any_layers = true};

bool HasGroups(const ParallelPlan& plan) {
  return plan.zero_group_size > 0 &&
         plan.zero_group_size != plan.data_parallel * plan.context_parallel;
}

void SetBatch(const Problem& problem, const ParallelPlan& plan, Json& config) {
  const int batch = problem.workload.global_batch_size;
  config["train_batch_size"] = batch;
  config["train_micro_batch_size_per_gpu"] = plan.micro_batch_size;
  config["gradient_accumulation_steps"] = MicroBatchCount(plan, batch);
}

void SetPrecision(const Workload& workload, Json& config) {
  config["bf16"]["enabled"] = workload.precision == Precision::kBf16;
  config["fp16"]["enabled"] = workload.precision == Precision::kFp16;
  config["data_types"]["grad_accum_dtype"] = Word(workload.gradient_dtype);
}

void SetZero(const Problem& problem, const ParallelPlan& plan, Json& config, Refusals& refusals) {
  const Overlap& overlap = problem.workload.overlap;
  Json& zero = config["zero_optimization"];
  zero["stage"] = plan.zero_stage;
  if (plan.zero_stage == 0) return;
  zero["overlap_comm"] = overlap.gradient_reduce;
  zero["contiguous_gradients"] = true;
  zero["reduce_scatter"] = true;
  if (plan.zero_stage == 3 && !overlap.parameter_gather) zero["stage3_prefetch_bucket_size"] = 0;
  if (HasGroups(plan)) {
    zero["mics_shard_size"] = plan.zero_group_size;
    if (plan.zero_stage != 3) {
      refusals.Refuse("plan.zero_group_size",
                      fmt::format("{} with ZeRO {}; DeepSpeed shards in groups (MiCS) with ZeRO 3",
                                  plan.zero_group_size, plan.zero_stage));
    }
  }
  if (plan.optimizer_offload_ratio == 0) return;
  Json& offload = zero["offload_optimizer"];
  offload["device"] = "cpu";
  offload["pin_memory"] = true;
  if (plan.optimizer_offload_ratio == 1) return;
  offload["ratio"] = plan.optimizer_offload_ratio;
  if (plan.zero_stage != 3) {
    refusals.Refuse("plan.optimizer_offload_ratio",
                    fmt::format("{} with ZeRO {}; DeepSpeed offloads a part of the states with "
                                "ZeRO 3",
                                plan.optimizer_offload_ratio, plan.zero_stage));
  }
}

void SetParallelism(const Problem& problem, const ParallelPlan& plan, Json& config,
                    Refusals& refusals) {
  if (plan.tensor_parallel > 1) {
    config["tensor_parallel"]["autotp_size"] = plan.tensor_parallel;
    if (plan.pipeline_parallel > 1) {
      refusals.Refuse("plan.tensor_parallel",
                      fmt::format("{} with a pipeline; DeepSpeed's AutoTP splits models without a "
                                  "pipeline",
                                  plan.tensor_parallel));
    }
  }
  if (plan.context_parallel > 1) {
    config["sequence_parallel_size"] = plan.context_parallel;
    config["data_parallel_size"] = plan.data_parallel;
    if (plan.tensor_parallel * plan.pipeline_parallel > 1) {
      refusals.Refuse("plan.context_parallel",
                      fmt::format("{} with tensor parallelism or a pipeline; DeepSpeed's mesh has "
                                  "data and sequence parallelism",
                                  plan.context_parallel));
    }
  }
  if (plan.pipeline_parallel == 1) return;
  const RecomputeForm form = RecomputeFormOf(problem, plan);
  config["pipeline"]["stages"] = plan.pipeline_parallel;
  config["pipeline"]["activation_checkpoint_interval"] = form == RecomputeForm::kEveryLayer ? 1 : 0;
}

std::string_view OptimizerName(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kAdam:
      return "AdamW";
    case Optimizer::kAdam8bit:
      return "bitsandbytes.optim.AdamW8bit";
    case Optimizer::kSgd:
      return "SGD";
  }
  return "";
}

// The model's code recomputes without a pipeline. The argument is of DeepSpeed's examples and of
// transformers.TrainingArguments.
bool RecomputesByArgument(const Problem& problem, const ParallelPlan& plan) {
  return plan.pipeline_parallel == 1 &&
         RecomputeFormOf(problem, plan) == RecomputeForm::kEveryLayer;
}

// Returns the arguments of the script for what the file has no setting for. --ep-world-size is that
// of DeepSpeed's tutorial on experts.
std::string ScriptArguments(const Problem& problem, const ParallelPlan& plan) {
  std::string arguments;
  if (RecomputesByArgument(problem, plan)) arguments += " --gradient_checkpointing";
  if (plan.expert_parallel > 1) {
    arguments += fmt::format(" --ep-world-size {}", plan.expert_parallel);
  }
  return arguments;
}

std::vector<std::string> LeftOut(const Problem& problem, const ParallelPlan& plan) {
  const Workload& workload = problem.workload;
  std::vector<std::string> left_out = {
      fmt::format("optimizer.type = {} with optimizer.params.lr, scheduler, gradient_clipping",
                  OptimizerName(workload.optimizer)),
      fmt::format("in the script: sequences of {} tokens, attention by {}, and the model: {}",
                  workload.sequence_length, Word(workload.attention_kernel),
                  ModelSizes(problem.model)),
      "in the script: the model's biases of queries, keys and values, norms of queries and keys, "
      "rotary base and scaling, norm epsilon",
      "in the script: data, tokenizer, number of steps, save_checkpoint"};
  if (workload.cross_entropy_kernel == KernelFusion::kFused) {
    left_out.emplace_back("in the script: a fused loss");
  }
  const bool gathers_late = plan.zero_stage == 1 || plan.zero_stage == 2;
  if (workload.overlap.parameter_gather && gathers_late) {
    left_out.emplace_back("nowhere: overlapped gathering of the weights; ZeRO 1 and 2 have none");
  }
  if (plan.pipeline_parallel > 1) {
    left_out.push_back(
        fmt::format("in the script: PipelineModule(num_stages={})", plan.pipeline_parallel));
  } else if (RecomputesByArgument(problem, plan)) {
    left_out.emplace_back(
        "in the script: reading --gradient_checkpointing, by gradient_checkpointing_enable() or "
        "deepspeed.checkpointing.checkpoint");
  }
  if (plan.context_parallel > 1) {
    left_out.push_back(
        fmt::format("in the script: attention by DistributedAttention or "
                    "UlyssesSPAttentionHF over {} ranks",
                    plan.context_parallel));
  }
  if (plan.expert_parallel > 1) {
    left_out.emplace_back(
        "in the script: reading --ep-world-size, as the ep_size of deepspeed.moe.layer.MoE");
  }
  if (plan.zero_stage == 3 && HasGroups(plan)) {
    left_out.emplace_back("in the script: deepspeed.zero.MiCS_Init around the model");
  }
  if (workload.dropout_ratio > 0) {
    left_out.push_back(
        fmt::format("in the script: dropout of {} in the model", workload.dropout_ratio));
  }
  return left_out;
}

}  // namespace

LaunchConfig ExportDeepSpeed(const Problem& problem, const ParallelPlan& plan, Refusals& refusals) {
  RefuseInexpressible(problem, plan, kExpressible, refusals);
  Json config = Json::object();
  SetBatch(problem, plan, config);
  SetPrecision(problem.workload, config);
  SetZero(problem, plan, config, refusals);
  SetParallelism(problem, plan, config, refusals);
  return {.text = JsonText(config),
          .file_name = "ds_config.json",
          .versions = "0.16.4 and later",
          .command = TorchrunCommand(JobSizeOf(problem, plan),
                                     "train.py --deepspeed --deepspeed_config ds_config.json" +
                                         ScriptArguments(problem, plan)),
          .left_out = LeftOut(problem, plan)};
}

}  // namespace meshwright
