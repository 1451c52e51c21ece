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
#include "server/tuner/export/text/command_line.h"
#include "server/tuner/export/text/config_text.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

constexpr Schedule kSchedules[] = {Schedule::k1f1b, Schedule::kGpipe};
constexpr ContextParallelKind kContextKinds[] = {ContextParallelKind::kRing};
constexpr int kZeroStages[] = {0, 1};
constexpr RecomputeForm kRecompute[] = {RecomputeForm::kNothing, RecomputeForm::kEveryLayer};
constexpr Precision kPrecisions[] = {Precision::kBf16, Precision::kFp16, Precision::kFp32};
constexpr GradientDtype kGradients[] = {GradientDtype::kFp32, GradientDtype::kBf16,
                                        GradientDtype::kFp16};
constexpr Optimizer kOptimizers[] = {Optimizer::kAdam, Optimizer::kSgd};
constexpr AttentionKernel kAttention[] = {AttentionKernel::kFlash2};
constexpr MlpKind kMlps[] = {MlpKind::kSwiglu};

constexpr Expressible kExpressible = {.framework = "nanotron",
                                      .schedules = kSchedules,
                                      .context_parallel_kinds = kContextKinds,
                                      .zero_stages = kZeroStages,
                                      .recompute = kRecompute,
                                      .precisions = kPrecisions,
                                      .gradient_dtypes = kGradients,
                                      .optimizers = kOptimizers,
                                      .attention_kernels = kAttention,
                                      .tensor_overlap = true,
                                      .mlps = kMlps};

void SetParallelism(const Problem& problem, const ParallelPlan& plan, Json& config,
                    Refusals& refusals) {
  Json& parallelism = config["parallelism"];
  parallelism["dp"] = plan.data_parallel;
  parallelism["pp"] = plan.pipeline_parallel;
  parallelism["tp"] = plan.tensor_parallel;
  parallelism["pp_engine"] = plan.schedule == Schedule::kGpipe ? "afab" : "1f1b";
  const bool splits_sequence = plan.tensor_parallel > 1 && plan.sequence_parallel;
  const bool is_overlapped = plan.tensor_parallel > 1 && problem.workload.overlap.tensor_parallel;
  parallelism["tp_mode"] = splits_sequence ? "REDUCE_SCATTER" : "ALL_REDUCE";
  parallelism["tp_linear_async_communication"] = is_overlapped;
  if (is_overlapped && !splits_sequence) {
    refusals.Refuse("workload.overlap.tensor_parallel",
                    "true; nanotron overlaps it with sequence parallelism (REDUCE_SCATTER) only");
  }
  // Versions of 2024 do not know the next two.
  if (plan.context_parallel > 1) parallelism["context_parallel_size"] = plan.context_parallel;
  if (RecomputeFormOf(problem, plan) == RecomputeForm::kEveryLayer) {
    parallelism["recompute_layer"] = true;
  }
}

std::string_view DtypeName(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return "bfloat16";
    case Precision::kFp16:
      return "float16";
    case Precision::kFp32:
    case Precision::kFp8:
      break;
  }
  return "float32";  // fp8 is refused
}

void SetModel(const Problem& problem, const ParallelPlan& plan, Json& config, Refusals& refusals) {
  const ModelSpec& model = problem.model;
  config["model"]["dtype"] = DtypeName(problem.workload.precision);
  config["model"]["make_vocab_size_divisible_by"] = 1;
  Json& sizes = config["model"]["model_config"];
  sizes["is_llama_config"] = true;
  sizes["hidden_act"] = "silu";
  sizes["hidden_size"] = model.hidden_size;
  sizes["intermediate_size"] = model.ffn_hidden_size;
  sizes["max_position_embeddings"] = problem.workload.sequence_length;
  sizes["num_attention_heads"] = model.attention_head_count;
  sizes["num_hidden_layers"] = model.layer_count;
  sizes["num_key_value_heads"] = model.kv_head_count;
  sizes["tie_word_embeddings"] = model.tied_embeddings;
  sizes["vocab_size"] = model.vocab_size;
  if (model.head_dim * model.attention_head_count != model.hidden_size) {
    refusals.Refuse(
        "model.head_dim",
        fmt::format("{}; nanotron has hidden_size / attention_head_count", model.head_dim));
  }
  if (model.kv_head_count % plan.tensor_parallel != 0) {
    refusals.Refuse("plan.tensor_parallel",
                    fmt::format("{}; nanotron wants a divisor of the {} key-value heads",
                                plan.tensor_parallel, model.kv_head_count));
  }
}

void SetOptimizer(const Problem& problem, const ParallelPlan& plan, Json& config,
                  Refusals& refusals) {
  const Workload& workload = problem.workload;
  const bool is_fp32 = workload.gradient_dtype == GradientDtype::kFp32;
  Json& optimizer = config["optimizer"];
  optimizer["zero_stage"] = plan.zero_stage;
  optimizer["accumulate_grad_in_fp32"] = is_fp32;
  optimizer["optimizer_factory"]["name"] = workload.optimizer == Optimizer::kAdam ? "adamW" : "sgd";
  if (!is_fp32 && Word(workload.gradient_dtype) != Word(workload.precision)) {
    refusals.Refuse(
        "workload.gradient_dtype",
        fmt::format("{} with {}; nanotron accumulates in fp32 or in the parameters' type",
                    Word(workload.gradient_dtype), Word(workload.precision)));
  }
}

std::vector<std::string> LeftOut() {
  return {
      "of the model: model_config.rms_norm_eps, rope_theta, rope_scaling, attention_bias, "
      "bos_token_id, eos_token_id, pad_token_id; model.init_method.std",
      "data and tokenizer: data_stages, tokenizer.tokenizer_name_or_path",
      "length and learning rate: tokens.train_steps, optimizer.learning_rate_scheduler, "
      "optimizer.weight_decay, optimizer.clip_grad, and the betas and epsilon of "
      "optimizer.optimizer_factory",
      "checkpoints: checkpoints.checkpoints_path, checkpoints.checkpoint_interval",
      "in the model's code: a fused loss"};
}

}  // namespace

LaunchConfig ExportNanotron(const Problem& problem, const ParallelPlan& plan, Refusals& refusals) {
  RefuseInexpressible(problem, plan, kExpressible, refusals);
  const int batch = problem.workload.global_batch_size;
  Json config = Json::object();
  config["general"]["project"] = "meshwright";
  config["general"]["run"] = "plan";
  SetParallelism(problem, plan, config, refusals);
  SetModel(problem, plan, config, refusals);
  SetOptimizer(problem, plan, config, refusals);
  config["tokens"]["sequence_length"] = problem.workload.sequence_length;
  config["tokens"]["micro_batch_size"] = plan.micro_batch_size;
  config["tokens"]["batch_accumulation_per_replica"] = MicroBatchCount(plan, batch);
  return {
      .text = YamlText(config),
      .file_name = "plan.yaml",
      .versions = "2024",
      .command = "CUDA_DEVICE_MAX_CONNECTIONS=1 " +
                 TorchrunCommand(JobSizeOf(problem, plan), "run_train.py --config-file plan.yaml"),
      .left_out = LeftOut()};
}

}  // namespace meshwright
