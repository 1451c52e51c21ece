#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/named_models.h"
#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {
namespace {

// Names and defaults are those of torchtitan/config/job_config.py.
constexpr std::pair<std::string_view, Schedule> kScheduleWords[] = {
    {"GPipe", Schedule::kGpipe},
    {"1F1B", Schedule::k1f1b},
    {"Interleaved1F1B", Schedule::kInterleaved1f1b},
    {"ZBVZeroBubble", Schedule::kZbV},
    {"DualPipeV", Schedule::kDualpipeV}};
constexpr std::pair<std::string_view, ContextParallelKind> kRotateWords[] = {
    {"allgather", ContextParallelKind::kAllGather}, {"alltoall", ContextParallelKind::kRing}};
constexpr std::pair<std::string_view, Fp8Recipe> kRecipeWords[] = {
    {"tensorwise", Fp8Recipe::kTensorwise},
    {"rowwise", Fp8Recipe::kRowwise},
    {"rowwise_with_gw_hp", Fp8Recipe::kRowwise}};
constexpr std::pair<std::string_view, Precision> kParamWords[] = {{"bfloat16", Precision::kBf16},
                                                                  {"float32", Precision::kFp32}};
constexpr std::pair<std::string_view, Optimizer> kOptimizerWords[] = {{"AdamW", Optimizer::kAdam},
                                                                      {"Adam", Optimizer::kAdam}};

std::string Parallel(std::string_view name) { return fmt::format("parallelism.{}", name); }

int Degree(SettingReader& settings, std::string_view name) {
  return settings.Degree(Parallel(name));
}

// Converters switch fp8 on; its recipe stands in a section whose name changed over the versions.
void ReadPrecision(SettingReader& settings, WorkloadRequest& workload) {
  workload.precision = settings.Choice<Precision>("training.mixed_precision_param", kParamWords)
                           .value_or(Precision::kBf16);
  settings.Text("training.mixed_precision_reduce");
  workload.gradient_dtype = GradientDtype::kFp32;
  bool is_float8 = false;
  bool is_mx = false;
  for (const char* key : {"model.converters", "model_converters.converters"}) {
    for (const std::string& name : settings.List(key)) {
      is_mx = is_mx || name == "mx" || name == "quantize.linear.mx";
      is_float8 = is_float8 || name == "float8" || name == "quantize.linear.float8";
    }
  }
  std::optional<Fp8Recipe> recipe;
  for (const char* key : {"float8.recipe_name", "quantize.linear.float8.recipe_name"}) {
    const auto stated = settings.Choice<Fp8Recipe>(key, kRecipeWords);
    if (stated.has_value()) recipe = stated;
  }
  settings.Text("quantize.linear.mx.recipe_name");
  if (!is_float8 && !is_mx) return;
  workload.precision = Precision::kFp8;
  workload.fp8_recipe = is_mx ? Fp8Recipe::kMxfp8 : recipe.value_or(Fp8Recipe::kTensorwise);
}

void ReadWorkload(SettingReader& settings, WorkloadRequest& workload) {
  workload.sequence_length = settings.Int("training.seq_len").value_or(2048);
  ReadPrecision(settings, workload);
  workload.optimizer =
      settings.Choice<Optimizer>("optimizer.name", kOptimizerWords).value_or(Optimizer::kAdam);
  const std::vector<std::string> components = settings.Has("compile.components")
                                                  ? settings.List("compile.components")
                                                  : std::vector<std::string>{"model", "loss"};
  const bool compiles = settings.Switch("compile.enable") || settings.Switch("training.compile");
  const bool fuses_loss = compiles && std::ranges::find(components, "loss") != components.end();
  workload.cross_entropy_kernel = fuses_loss ? KernelFusion::kFused : KernelFusion::kUnfused;
  if (compiles && std::ranges::find(components, "model") != components.end()) {
    settings.Note("compile: the model is compiled, which the plan does not state");
  }
  workload.overlap.tensor_parallel = settings.Switch(Parallel("enable_async_tensor_parallel")) ||
                                     settings.Switch("experimental.enable_async_tensor_parallel");
}

// -1 stands for all the devices that are left.
std::optional<int> Shards(SettingReader& settings, const ReaderContext& context, int replicas,
                          const PlanRequest& plan) {
  const int shards = settings.Int(Parallel("data_parallel_shard_degree")).value_or(-1);
  if (shards > 0) return shards;
  if (!context.devices.has_value()) return std::nullopt;
  const int block = *plan.tensor_parallel * *plan.pipeline_parallel * *plan.context_parallel;
  const long long others = 1LL * block * replicas;
  if (others < 1 || *context.devices % others != 0) {
    settings.Refuse(Parallel("data_parallel_shard_degree"),
                    fmt::format("-1; the other degrees, {} together, must divide the {} devices",
                                others, *context.devices));
    return std::nullopt;
  }
  return static_cast<int>(*context.devices / others);
}

void ReadSharding(SettingReader& settings, const ReaderContext& context, ImportedJob& job) {
  PlanRequest& plan = job.plan;
  const int replicas = Degree(settings, "data_parallel_replicate_degree");
  const std::optional<int> shards = Shards(settings, context, replicas, plan);
  const auto reshard = settings.Text(Parallel("fsdp_reshard_after_forward"));
  if (shards.has_value()) plan.data_parallel = *shards * replicas;
  SetDataParallel(settings, context,
                  "parallelism: the product of tensor, pipeline and context parallelism", job);
  // FSDP shards over context parallelism too; with neither there are whole weights.
  const bool is_sharded = !shards.has_value() || *shards * *plan.context_parallel > 1;
  if (!is_sharded) {
    plan.zero_stage = 0;
    return;
  }
  // "default" keeps the weights of a pipeline's stages, and shards them again otherwise.
  const bool keeps = reshard == "never" ||
                     (reshard.value_or("default") == "default" && *plan.pipeline_parallel > 1);
  plan.zero_stage = keeps ? 2 : 3;
  if (shards.has_value() && replicas > 1) plan.zero_group_size = *shards * *plan.context_parallel;
}

// Returns the layers of each part of the model, in the order of the model.
std::vector<int> PartLayers(SettingReader& settings, const ModelSpec* model, int stages) {
  std::vector<int> parts;
  const auto names = settings.Text(Parallel("module_fqns_per_model_part"));
  const auto old_names = settings.Text("experimental.module_fqns_per_model_part");
  const auto list =
      nlohmann::json::parse(names.value_or(old_names.value_or("null")), nullptr, false);
  const auto per_part = settings.Int(Parallel("pipeline_parallel_layers_per_stage"));
  const int less_first =
      settings.Int(Parallel("pipeline_parallel_first_stage_less_layers")).value_or(1);
  const int less_last =
      settings.Int(Parallel("pipeline_parallel_last_stage_less_layers")).value_or(1);
  if (list.is_array()) {
    for (const auto& part : list) {
      parts.push_back(static_cast<int>(std::ranges::count_if(part, [](const auto& name) {
        return name.is_string() && name.template get<std::string>().starts_with("layers.");
      })));
    }
    return parts;
  }
  if (!per_part.has_value() || model == nullptr || *per_part < 1) return {};
  // Embedding and loss count as layers of the first and the last part
  // (generate_llm_fqn_per_model_part).
  const int counted = model->layer_count + less_first + less_last;
  const int count = (counted + *per_part - 1) / *per_part;
  if (count < 1 || count % stages != 0) {
    settings.Refuse(Parallel("pipeline_parallel_layers_per_stage"),
                    fmt::format("{}; gives {} parts, which must be a multiple of {} stages",
                                *per_part, count, stages));
    return {};
  }
  const int extra = counted % count;
  for (int i = 0; i < count; ++i) parts.push_back(counted / count + (i < extra ? 1 : 0));
  parts.front() -= less_first;
  parts.back() -= less_last;
  return parts;
}

void ReadPipeline(SettingReader& settings, const ModelSpec* model, PlanRequest& plan) {
  plan.schedule = settings.Choice<Schedule>(Parallel("pipeline_parallel_schedule"), kScheduleWords)
                      .value_or(Schedule::k1f1b);
  const auto micro = settings.Int(Parallel("pipeline_parallel_microbatch_size"));
  const int stages = *plan.pipeline_parallel;
  const std::vector<int> parts = PartLayers(settings, model, std::max(1, stages));
  if (stages <= 1) {
    plan.schedule = Schedule::k1f1b;
    return;
  }
  plan.micro_batch_size = micro.value_or(1);
  const bool is_v = *plan.schedule == Schedule::kZbV || *plan.schedule == Schedule::kDualpipeV;
  if (parts.empty()) {
    if (*plan.schedule == Schedule::kInterleaved1f1b) plan.virtual_pipeline = 2;  // the default
    return;
  }
  if (parts.size() % static_cast<std::size_t>(stages) != 0) {
    settings.Refuse(Parallel("module_fqns_per_model_part"),
                    fmt::format("{} parts; must be a multiple of {} stages", parts.size(), stages));
    return;
  }
  plan.layers_per_stage.assign(static_cast<std::size_t>(stages), 0);
  for (int i = 0; i < static_cast<int>(parts.size()); ++i) {
    const int place = i % stages;
    const bool goes_back = is_v && (i / stages) % 2 == 1;
    plan.layers_per_stage[static_cast<std::size_t>(goes_back ? stages - 1 - place : place)] +=
        parts[static_cast<std::size_t>(i)];
  }
  if (*plan.schedule == Schedule::kInterleaved1f1b) {
    plan.virtual_pipeline = static_cast<int>(parts.size()) / stages;
  }
}

// A pipeline gets a local batch in micro-batches; without one, local batches are accumulated.
void ReadBatch(SettingReader& settings, ImportedJob& job) {
  PlanRequest& plan = job.plan;
  const auto old_local = settings.Int("training.batch_size");
  const int local = settings.Int("training.local_batch_size").value_or(old_local.value_or(8));
  const auto global = settings.Int("training.global_batch_size");
  if (*plan.pipeline_parallel <= 1) plan.micro_batch_size = local;
  if (!plan.data_parallel.has_value()) {
    if (global.has_value() && *global > 0) job.workload.global_batch_size = *global;
    return;
  }
  const long long of_step = 1LL * local * *plan.data_parallel;
  job.workload.global_batch_size =
      global.has_value() && *global > 0 ? *global : static_cast<int>(of_step);
  if (of_step < 1 || *job.workload.global_batch_size % of_step != 0) {
    settings.Refuse("training.global_batch_size",
                    fmt::format("{}; must be a multiple of local_batch_size x data parallelism = "
                                "{}",
                                *job.workload.global_batch_size, of_step));
  }
}

void ReadRecompute(SettingReader& settings, const ModelSpec* model, PlanRequest& plan) {
  const std::string mode = settings.Text("activation_checkpoint.mode").value_or("selective");
  const std::string option =
      settings.Text("activation_checkpoint.selective_ac_option").value_or("2");
  plan.recompute = RecomputePlan{};
  if (mode == "none") return;
  if (mode == "full") {
    plan.recompute = EveryLayer();
    return;
  }
  if (mode != "selective") {
    settings.Refuse("activation_checkpoint.mode", mode + "; known here: none, selective, full");
    return;
  }
  if (option == "op") {
    plan.recompute = RecomputePlan{.granularity = RecomputeGranularity::kSelective};
    return;
  }
  int interval = 0;
  std::from_chars(option.data(), option.data() + option.size(), interval);
  if (interval < 1) {
    settings.Refuse("activation_checkpoint.selective_ac_option",
                    option + "; must be op or a whole number");
    return;
  }
  std::vector<int> counts = plan.layers_per_stage;
  if (counts.empty() && model != nullptr) {
    const int stages = *plan.pipeline_parallel;
    if (model->layer_count % stages != 0) {
      settings.Refuse("activation_checkpoint.selective_ac_option",
                      fmt::format("{}; the layers of the stages are not known", option));
      return;
    }
    counts.assign(static_cast<std::size_t>(stages), model->layer_count / stages);
  }
  for (int& count : counts) count /= interval;
  plan.recompute =
      RecomputePlan{.granularity = RecomputeGranularity::kFull, .layer_counts = std::move(counts)};
}

// A flavor with another attention kernel has the same sizes.
std::string WithoutKernel(std::string flavor) {
  for (const std::string_view kernel : {"_flex", "_varlen"}) {
    if (flavor.ends_with(kernel)) flavor.resize(flavor.size() - kernel.size());
  }
  return flavor;
}

void ReadModel(SettingReader& settings, ImportedJob& job) {
  const std::string name = settings.Text("model.name").value_or("");
  const std::string flavor = settings.Text("model.flavor").value_or("");
  job.model = NamedModel("torchtitan", fmt::format("{}/{}", name, WithoutKernel(flavor)));
  if (job.model.has_value()) {
    job.notes.push_back(fmt::format("the sizes of {} {} are those of torchtitan", name, flavor));
    return;
  }
  job.missing_of_model.push_back(fmt::format(
      "all sizes (model.name = {}, model.flavor = {} stand for sizes in torchtitan's Python; known "
      "here are {})",
      name, flavor, fmt::join(NamesOfModels("torchtitan"), ", ")));
}

}  // namespace

void ReadTorchtitan(SettingReader& settings, const ReaderContext& context, ImportedJob& job) {
  ReadModel(settings, job);
  const ModelSpec* model = ModelOf(context, job);
  PlanRequest& plan = job.plan;
  plan.tensor_parallel = Degree(settings, "tensor_parallel_degree");
  plan.sequence_parallel = *plan.tensor_parallel > 1;
  plan.pipeline_parallel = Degree(settings, "pipeline_parallel_degree");
  plan.context_parallel = Degree(settings, "context_parallel_degree");
  plan.context_parallel_kind =
      settings.Choice<ContextParallelKind>(Parallel("context_parallel_rotate_method"), kRotateWords)
          .value_or(ContextParallelKind::kAllGather);
  const int experts = Degree(settings, "expert_parallel_degree");
  const int expert_tensor = Degree(settings, "expert_tensor_parallel_degree");
  if (model != nullptr && model->moe.has_value()) {
    plan.expert_parallel = experts;
    plan.expert_tensor_parallel = expert_tensor;
  }
  ReadWorkload(settings, job.workload);
  ReadSharding(settings, context, job);
  ReadPipeline(settings, model, plan);
  ReadBatch(settings, job);
  ReadRecompute(settings, model, plan);
}

}  // namespace meshwright
