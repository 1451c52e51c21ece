#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {
namespace {

// Names and defaults are those of deepspeed/runtime/config.py and runtime/zero/config.py.
constexpr std::pair<std::string_view, GradientDtype> kGradientWords[] = {
    {"fp32", GradientDtype::kFp32}, {"bf16", GradientDtype::kBf16}, {"fp16", GradientDtype::kFp16}};
constexpr std::pair<std::string_view, Optimizer> kOptimizerWords[] = {
    {"Adam", Optimizer::kAdam}, {"AdamW", Optimizer::kAdam}, {"FusedAdam", Optimizer::kAdam},
    {"adam", Optimizer::kAdam}, {"adamw", Optimizer::kAdam}, {"SGD", Optimizer::kSgd},
    {"sgd", Optimizer::kSgd}};

void ReadPrecision(SettingReader& settings, WorkloadRequest& workload) {
  const bool is_bf16 = settings.Switch("bf16.enabled") || settings.Switch("bfloat16.enabled");
  const bool is_fp16 = settings.Has("fp16.enabled") && settings.Switch("fp16.enabled");
  if (is_bf16 && is_fp16) settings.Refuse("bf16.enabled", "true together with fp16.enabled");
  workload.precision = is_bf16 ? Precision::kBf16 : (is_fp16 ? Precision::kFp16 : Precision::kFp32);
  // Without a setting, gradients accumulate in the type of the training.
  GradientDtype usual = is_fp16 ? GradientDtype::kFp16 : GradientDtype::kFp32;
  if (is_bf16) usual = GradientDtype::kFp32;  // of BF16_Optimizer
  workload.gradient_dtype =
      settings.Choice<GradientDtype>("data_types.grad_accum_dtype", kGradientWords).value_or(usual);
}

void ReadOffload(SettingReader& settings, PlanRequest& plan) {
  const std::string device =
      settings.Text("zero_optimization.offload_optimizer.device").value_or("none");
  const auto ratio = settings.Number("zero_optimization.offload_optimizer.ratio");
  const bool is_old = settings.Switch("zero_optimization.cpu_offload");
  if (device == "cpu" || is_old) plan.optimizer_offload_ratio = ratio.value_or(1.0);
  if (device == "nvme") {
    settings.Refuse("zero_optimization.offload_optimizer.device",
                    "nvme; a plan keeps optimizer states on the device or on the host");
  }
  const std::string parameters =
      settings.Text("zero_optimization.offload_param.device").value_or("none");
  if (parameters != "none") {
    settings.Refuse("zero_optimization.offload_param.device",
                    parameters + "; a plan keeps parameters on the device");
  }
}

void ReadZero(SettingReader& settings, ImportedJob& job) {
  PlanRequest& plan = job.plan;
  plan.zero_stage = settings.Int("zero_optimization.stage").value_or(0);
  const auto group = settings.Int("zero_optimization.mics_shard_size");
  if (group.value_or(-1) > 0) plan.zero_group_size = *group;
  if (settings.Int("zero_optimization.zero_hpz_partition_size").value_or(1) > 1) {
    settings.Refuse("zero_optimization.zero_hpz_partition_size",
                    "more than 1; a plan has no second copy of weights in a node");
  }
  // Stage 3 overlaps by default.
  const auto overlaps = settings.Bool("zero_optimization.overlap_comm");
  job.workload.overlap.gradient_reduce = overlaps.value_or(*plan.zero_stage == 3);
  const auto prefetch = settings.Number("zero_optimization.stage3_prefetch_bucket_size");
  job.workload.overlap.parameter_gather = *plan.zero_stage == 3 && prefetch.value_or(1) > 0;
  ReadOffload(settings, plan);
}

void ReadDegrees(SettingReader& settings, PlanRequest& plan) {
  const int autotp = settings.Degree("tensor_parallel.autotp_size");
  const int inference = settings.Degree("tensor_parallel.tp.tp_size");
  plan.tensor_parallel = autotp > 1 ? autotp : inference;
  plan.context_parallel = settings.Degree("sequence_parallel_size");
  plan.context_parallel_kind =
      *plan.context_parallel > 1 ? ContextParallelKind::kUlysses : ContextParallelKind::kRing;
  settings.Text("pipeline.partition_method");
  plan.pipeline_parallel = settings.Degree("pipeline.stages");
  const int interval = settings.Int("pipeline.activation_checkpoint_interval").value_or(0);
  const bool is_by_script = settings.Switch("gradient-checkpointing");
  plan.recompute = interval > 0 || is_by_script ? EveryLayer() : RecomputePlan{};
  if (interval > 1) {
    settings.Note(
        fmt::format("pipeline.activation_checkpoint_interval = {}: layers are recomputed "
                    "in groups, and are read as recomputed one by one",
                    interval));
  }
  constexpr std::string_view kExperts = "ep-world-size";
  if (settings.Has(kExperts)) plan.expert_parallel = settings.Degree(kExperts);
  plan.data_parallel = settings.Int("data_parallel_size");
}

// Two of train_batch_size, train_micro_batch_size_per_gpu and gradient_accumulation_steps give the
// third (_set_batch_related_parameters of deepspeed/runtime/config.py).
void ReadBatch(SettingReader& settings, const ReaderContext& context, ImportedJob& job) {
  constexpr std::string_view kBatch = "train_batch_size";
  constexpr std::string_view kMicro = "train_micro_batch_size_per_gpu";
  PlanRequest& plan = job.plan;
  const auto batch = settings.Int(kBatch);
  const auto micro = settings.Int(kMicro);
  auto steps = settings.Int("gradient_accumulation_steps");
  const auto data = plan.data_parallel;
  if (batch.has_value()) job.workload.global_batch_size = *batch;
  if (micro.has_value()) plan.micro_batch_size = *micro;
  if (batch.has_value() && micro.has_value() && steps.has_value() && !data.has_value() &&
      *micro * *steps > 0 && *batch % (*micro * *steps) == 0) {
    plan.data_parallel = *batch / *micro / *steps;
    return;
  }
  if (!data.has_value()) return;
  if (!steps.has_value() && !batch.has_value()) steps = 1;
  const long long ranks = *data;
  if (!batch.has_value() && micro.has_value()) {
    job.workload.global_batch_size = static_cast<int>(ranks * *micro * *steps);
  } else if (batch.has_value() && !micro.has_value()) {
    plan.micro_batch_size = static_cast<int>(*batch / ranks / steps.value_or(1));
  }
  if (!plan.micro_batch_size.has_value()) {
    settings.Refuse(kMicro, "is not stated, and neither is train_batch_size");
    return;
  }
  const long long product = ranks * *plan.micro_batch_size * steps.value_or(1);
  const int stated = job.workload.global_batch_size.value_or(context.global_batch_size.value_or(0));
  const bool fits = product > 0 && (steps.has_value() ? stated == product : stated % product == 0);
  if (!fits) {
    settings.Refuse(kBatch, fmt::format("{}; must be micro-batch x accumulation x data "
                                        "parallelism = {} x {} x {}",
                                        stated, *plan.micro_batch_size, steps.value_or(1), ranks));
  }
}

}  // namespace

void ReadDeepSpeed(SettingReader& settings, const ReaderContext& context, ImportedJob& job) {
  if (ModelOf(context, job) == nullptr) {
    job.missing_of_model.emplace_back("all sizes (a DeepSpeed file has none)");
  }
  ReadPrecision(settings, job.workload);
  job.workload.optimizer =
      settings.Choice<Optimizer>("optimizer.type", kOptimizerWords).value_or(Optimizer::kAdam);
  ReadDegrees(settings, job.plan);
  ReadZero(settings, job);
  SetDataParallel(settings, context,
                  "tensor_parallel.autotp_size x pipeline.stages x sequence_parallel_size", job);
  ReadBatch(settings, context, job);
}

}  // namespace meshwright
