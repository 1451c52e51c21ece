#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {
namespace {

// Names are those of the files that `accelerate config` writes (accelerate/utils/dataclasses.py).
constexpr std::pair<std::string_view, Precision> kPrecisionWords[] = {{"no", Precision::kFp32},
                                                                      {"bf16", Precision::kBf16},
                                                                      {"fp16", Precision::kFp16},
                                                                      {"fp8", Precision::kFp8}};
constexpr std::pair<std::string_view, ContextParallelKind> kContextWords[] = {
    {"allgather", ContextParallelKind::kAllGather}, {"alltoall", ContextParallelKind::kRing}};
// The sharding strategies of FSDP 1, as words and as the numbers of older files.
constexpr std::pair<std::string_view, int> kStrategyWords[] = {
    {"FULL_SHARD", 3},   {"1", 3}, {"SHARD_GRAD_OP", 2},      {"2", 2}, {"NO_SHARD", 0}, {"3", 0},
    {"HYBRID_SHARD", 3}, {"4", 3}, {"HYBRID_SHARD_ZERO2", 2}, {"5", 2}};

std::string Parallel(std::string_view name) {
  return fmt::format("parallelism_config.parallelism_config_{}", name);
}

std::string Fsdp(std::string_view name) { return fmt::format("fsdp_config.fsdp_{}", name); }

// Returns ZeRO's stage of FSDP 1 or 2.
int ReadStage(SettingReader& settings, const ReaderContext& context, PlanRequest& plan) {
  const auto reshards = settings.Text(Fsdp("reshard_after_forward"));
  const auto strategy = settings.Text(Fsdp("sharding_strategy"));
  if (strategy.has_value()) {
    const auto stage = settings.Choice<int>(Fsdp("sharding_strategy"), kStrategyWords);
    if (strategy->starts_with("HYBRID")) {
      const auto nodes = settings.Int("num_machines");
      if (context.devices.has_value() && nodes.has_value() && *nodes > 0) {
        plan.zero_group_size = *context.devices / *nodes;  // a node
      }
    }
    return stage.value_or(3);
  }
  // FSDP 1 has the words of its strategies here too.
  if (reshards == "FULL_SHARD" || reshards == "HYBRID_SHARD") return 3;
  if (reshards == "SHARD_GRAD_OP") return 2;
  return settings.Bool(Fsdp("reshard_after_forward")).value_or(true) ? 3 : 2;
}

// The argument of transformers.TrainingArguments, which holds with and without FSDP.
bool RecomputesByArgument(SettingReader& settings) {
  return settings.Switch("gradient-checkpointing");
}

void ReadFsdp(SettingReader& settings, const ReaderContext& context, ImportedJob& job) {
  PlanRequest& plan = job.plan;
  plan.zero_stage = ReadStage(settings, context, plan);
  plan.tensor_parallel = settings.Degree(Parallel("tp_size"));
  plan.context_parallel = settings.Degree(Parallel("cp_size"));
  const auto kind =
      settings.Choice<ContextParallelKind>(Parallel("cp_comm_strategy"), kContextWords);
  plan.context_parallel_kind = kind.value_or(
      *plan.context_parallel > 1 ? ContextParallelKind::kAllGather : ContextParallelKind::kRing);
  const auto replicas = settings.Int(Parallel("dp_replicate_size"));
  const auto shards = settings.Int(Parallel("dp_shard_size"));
  if (shards.has_value()) {
    plan.data_parallel = *shards * replicas.value_or(1);
    if (replicas.value_or(1) > 1) plan.zero_group_size = *shards * *plan.context_parallel;
  }
  // Context parallelism runs PyTorch's own attention only (accelerate's guide to it).
  if (*plan.context_parallel > 1) job.workload.attention_kernel = AttentionKernel::kVendor;
  const bool is_by_argument = RecomputesByArgument(settings);
  const bool is_by_file = settings.Switch(Fsdp("activation_checkpointing"));
  plan.recompute = is_by_argument || is_by_file ? EveryLayer() : RecomputePlan{};
  if (settings.Has(Fsdp("offload_params")) && settings.Switch(Fsdp("offload_params"))) {
    settings.Refuse(Fsdp("offload_params"), "true; a plan keeps parameters on the device");
  }
}

void ReadBatch(SettingReader& settings, const ReaderContext& context, ImportedJob& job) {
  const auto of_env = settings.Int("env.ACCELERATE_GRADIENT_ACCUMULATION_STEPS");
  const auto of_flag = settings.Int("gradient-accumulation-steps");
  const int steps =
      settings.Int("gradient_accumulation_steps").value_or(of_env.value_or(of_flag.value_or(1)));
  const auto micro = settings.Int("per-device-train-batch-size");
  PlanRequest& plan = job.plan;
  if (micro.has_value()) plan.micro_batch_size = *micro;
  if (!plan.data_parallel.has_value() || steps < 1) return;
  const long long ranks = 1LL * *plan.data_parallel * steps;
  if (micro.has_value()) {
    job.workload.global_batch_size = static_cast<int>(*micro * ranks);
  } else if (context.global_batch_size.has_value()) {
    const bool divides = *context.global_batch_size % ranks == 0;
    if (divides) plan.micro_batch_size = static_cast<int>(*context.global_batch_size / ranks);
    if (!divides) {
      settings.Refuse("gradient_accumulation_steps",
                      fmt::format("{}, with {} ranks of data; must divide the global batch of {}",
                                  steps, *plan.data_parallel, *context.global_batch_size));
    }
  } else {
    settings.Note("per_device_train_batch_size stands in the training script; it is read as 1");
    plan.micro_batch_size = 1;
    job.workload.global_batch_size = static_cast<int>(ranks);
  }
}

}  // namespace

void ReadAccelerate(SettingReader& settings, const ReaderContext& context, ImportedJob& job) {
  if (ModelOf(context, job) == nullptr) {
    job.missing_of_model.emplace_back("all sizes (an accelerate file has none)");
  }
  PlanRequest& plan = job.plan;
  plan.pipeline_parallel = 1;
  const std::string type = settings.Text("distributed_type").value_or("NO");
  job.workload.precision =
      settings.Choice<Precision>("mixed_precision", kPrecisionWords).value_or(Precision::kFp32);
  if (type == "FSDP") {
    ReadFsdp(settings, context, job);
  } else if (type == "MULTI_GPU" || type == "MULTI_NPU" || type == "MULTI_XPU" || type == "NO" ||
             type == "MULTI_MLU" || type == "MULTI_MUSA") {
    plan.tensor_parallel = 1;
    plan.context_parallel = 1;
    plan.zero_stage = 0;
    plan.recompute = RecomputesByArgument(settings) ? EveryLayer() : RecomputePlan{};
  } else {
    settings.Refuse("distributed_type",
                    type + "; read are FSDP and MULTI_GPU, and DeepSpeed by its own JSON");
    return;
  }
  settings.Int("num_machines");
  settings.Int("num_processes");
  SetDataParallel(settings, context, Parallel("tp_size") + " x cp_size", job);
  ReadBatch(settings, context, job);
}

}  // namespace meshwright
