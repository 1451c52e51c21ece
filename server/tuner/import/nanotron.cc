#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {
namespace {

// Names and defaults are those of src/nanotron/config.
constexpr std::pair<std::string_view, Precision> kDtypeWords[] = {
    {"bfloat16", Precision::kBf16}, {"float16", Precision::kFp16}, {"float32", Precision::kFp32}};
constexpr std::pair<std::string_view, Schedule> kEngineWords[] = {{"1f1b", Schedule::k1f1b},
                                                                  {"afab", Schedule::kGpipe}};
constexpr std::pair<std::string_view, bool> kModeWords[] = {{"ALL_REDUCE", false},
                                                            {"REDUCE_SCATTER", true}};
constexpr std::pair<std::string_view, Optimizer> kOptimizerWords[] = {
    {"adamW", Optimizer::kAdam}, {"adam", Optimizer::kAdam}, {"sgd", Optimizer::kSgd}};

std::string Model(std::string_view name) { return fmt::format("model.model_config.{}", name); }

void ReadModel(SettingReader& settings, ImportedJob& job) {
  if (!settings.Has(Model("hidden_size"))) {
    job.missing_of_model.emplace_back("all sizes (model.model_config)");
    return;
  }
  ModelSpec model;
  const auto need = [&settings](std::string_view name) {
    const auto value = settings.Int(Model(name));
    if (!value.has_value()) settings.Refuse(Model(name), "is not stated");
    return value.value_or(0);
  };
  model.layer_count = need("num_hidden_layers");
  model.hidden_size = need("hidden_size");
  model.ffn_hidden_size = need("intermediate_size");
  model.attention_head_count = need("num_attention_heads");
  model.kv_head_count =
      settings.Int(Model("num_key_value_heads")).value_or(model.attention_head_count);
  model.vocab_size = need("vocab_size");
  model.head_dim =
      model.attention_head_count > 0 ? model.hidden_size / model.attention_head_count : 0;
  const bool is_gated = settings.Text(Model("hidden_act")).value_or("silu") == "silu";
  model.mlp = is_gated ? MlpKind::kSwiglu : MlpKind::kGelu;
  model.norm = NormKind::kRmsnorm;
  model.tied_embeddings =
      settings.Has(Model("tie_word_embeddings")) && settings.Switch(Model("tie_word_embeddings"));
  job.model = model;
}

void ReadWorkload(SettingReader& settings, WorkloadRequest& workload) {
  workload.sequence_length = settings.Int("tokens.sequence_length");
  if (!workload.sequence_length.has_value()) {
    settings.Refuse("tokens.sequence_length", "is not stated");
  }
  workload.precision =
      settings.Choice<Precision>("model.dtype", kDtypeWords).value_or(Precision::kBf16);
  const bool is_fp32 = settings.Bool("optimizer.accumulate_grad_in_fp32").value_or(true);
  workload.gradient_dtype = GradientDtype::kFp32;
  if (!is_fp32 && workload.precision == Precision::kBf16) {
    workload.gradient_dtype = GradientDtype::kBf16;
  }
  if (!is_fp32 && workload.precision == Precision::kFp16) {
    workload.gradient_dtype = GradientDtype::kFp16;
  }
  workload.optimizer =
      settings.Choice<Optimizer>("optimizer.optimizer_factory.name", kOptimizerWords)
          .value_or(Optimizer::kAdam);
}

void ReadParallelism(SettingReader& settings, PlanRequest& plan, WorkloadRequest& workload) {
  plan.tensor_parallel = settings.Degree("parallelism.tp");
  plan.pipeline_parallel = settings.Degree("parallelism.pp");
  plan.data_parallel = settings.Int("parallelism.dp").value_or(1);
  plan.context_parallel = settings.Degree("parallelism.context_parallel_size");
  const auto mode = settings.Choice<bool>("parallelism.tp_mode", kModeWords);
  plan.sequence_parallel = mode.value_or(false) && *plan.tensor_parallel > 1;
  const auto engine = settings.Choice<Schedule>("parallelism.pp_engine", kEngineWords);
  plan.schedule = *plan.pipeline_parallel > 1 ? engine.value_or(Schedule::k1f1b) : Schedule::k1f1b;
  const auto is_async = settings.Bool("parallelism.tp_linear_async_communication");
  workload.overlap.tensor_parallel = is_async.value_or(false) && *plan.tensor_parallel > 1;
  const bool recomputes = settings.Bool("parallelism.recompute_layer").value_or(false);
  plan.recompute = recomputes ? EveryLayer() : RecomputePlan{};
  if (settings.Int("parallelism.expert_parallel_size").value_or(1) > 1) {
    settings.Refuse("parallelism.expert_parallel_size",
                    "more than 1; experts of nanotron are not read");
  }
}

}  // namespace

void ReadNanotron(SettingReader& settings, const ReaderContext& context, ImportedJob& job) {
  ReadModel(settings, job);
  ReadWorkload(settings, job.workload);
  ReadParallelism(settings, job.plan, job.workload);
  SetDataParallel(settings, context, "parallelism.tp x pp x context_parallel_size", job);
  PlanRequest& plan = job.plan;
  plan.zero_stage = settings.Int("optimizer.zero_stage").value_or(0);
  plan.micro_batch_size = settings.Int("tokens.micro_batch_size");
  const int steps = settings.Int("tokens.batch_accumulation_per_replica").value_or(1);
  if (!plan.micro_batch_size.has_value()) {
    settings.Refuse("tokens.micro_batch_size", "is not stated");
    return;
  }
  job.workload.global_batch_size =
      static_cast<int>(1LL * *plan.data_parallel * *plan.micro_batch_size * steps);
}

}  // namespace meshwright
