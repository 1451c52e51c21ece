#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
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
#include "server/tuner/export/model_family.h"
#include "server/tuner/export/plan_words.h"
#include "server/tuner/export/text/command_line.h"
#include "server/tuner/export/text/config_text.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

constexpr Schedule kSchedules[] = {Schedule::kGpipe, Schedule::k1f1b, Schedule::kInterleaved1f1b,
                                   Schedule::kZbV, Schedule::kDualpipeV};
constexpr ContextParallelKind kContextKinds[] = {ContextParallelKind::kRing,
                                                 ContextParallelKind::kAllGather};
constexpr int kZeroStages[] = {0, 2, 3};
// Some layers are recomputed as every n-th layer (RecomputeInterval).
constexpr RecomputeForm kRecompute[] = {RecomputeForm::kNothing, RecomputeForm::kSelective,
                                        RecomputeForm::kEveryLayer, RecomputeForm::kSomeLayers};
constexpr Precision kPrecisions[] = {Precision::kBf16, Precision::kFp8, Precision::kFp32};
constexpr Fp8Recipe kRecipes[] = {Fp8Recipe::kTensorwise, Fp8Recipe::kRowwise, Fp8Recipe::kMxfp8};
constexpr GradientDtype kGradients[] = {GradientDtype::kFp32};
constexpr Optimizer kOptimizers[] = {Optimizer::kAdam};
// PyTorch's scaled_dot_product_attention chooses one of them.
constexpr AttentionKernel kAttention[] = {AttentionKernel::kFlash2, AttentionKernel::kCudnn};
constexpr MlpKind kMlps[] = {MlpKind::kSwiglu};

constexpr Expressible kExpressible = {.framework = "torchtitan",
                                      .needs_sequence_parallel = true,
                                      .schedules = kSchedules,
                                      .layers_per_stage = true,
                                      .context_parallel_kinds = kContextKinds,
                                      .expert_parallel = true,
                                      .expert_tensor_parallel = true,
                                      .zero_stages = kZeroStages,
                                      .zero_groups = true,
                                      .recompute = kRecompute,
                                      .precisions = kPrecisions,
                                      .fp8_recipes = kRecipes,
                                      .gradient_dtypes = kGradients,
                                      .optimizers = kOptimizers,
                                      .attention_kernels = kAttention,
                                      .tensor_overlap = true,
                                      .always_overlaps_sharding = true,
                                      .mlps = kMlps,
                                      .experts = true,
                                      .latent_attention = true};

// Layers for which torchtitan has a model of their own (torchtitan/experiments/gpt_oss).
constexpr MlpKind kGptOssMlps[] = {MlpKind::kQuickGeglu};
constexpr Expressible kExpressibleGptOss = [] {
  Expressible gpt_oss = kExpressible;
  gpt_oss.any_layers = true;
  gpt_oss.mlps = kGptOssMlps;
  return gpt_oss;
}();

void SetPrecision(const Workload& workload, Json& config) {
  if (workload.precision != Precision::kFp8) return;
  const bool is_mx = workload.fp8_recipe == Fp8Recipe::kMxfp8;
  config["model"]["converters"] =
      Json::array({is_mx ? "quantize.linear.mx" : "quantize.linear.float8"});
  Json& linear = config["quantize"]["linear"];
  if (is_mx) {
    linear["mx"]["recipe_name"] = "mxfp8_cublas";
  } else {
    linear["float8"]["recipe_name"] = Word(workload.fp8_recipe);
  }
}

void SetTraining(const Problem& problem, const ParallelPlan& plan, Json& config) {
  const Workload& workload = problem.workload;
  Json& training = config["training"];
  // Without a pipeline the trainer accumulates gradients over local batches. A pipeline gets all
  // micro-batches of a step as one local batch.
  const int per_rank = workload.global_batch_size / plan.data_parallel;
  training["local_batch_size"] = plan.pipeline_parallel > 1 ? per_rank : plan.micro_batch_size;
  training["global_batch_size"] = workload.global_batch_size;
  training["seq_len"] = workload.sequence_length;
  training["mixed_precision_param"] =
      workload.precision == Precision::kFp32 ? "float32" : "bfloat16";
  training["mixed_precision_reduce"] = "float32";
}

void SetDataParallel(const ParallelPlan& plan, Json& parallelism, Refusals& refusals) {
  const std::optional<DataRanks> ranks = DataRanksOf(plan);
  if (!ranks.has_value()) {
    refusals.Refuse("plan.zero_group_size",
                    fmt::format("{}; torchtitan shards over whole groups of context parallelism",
                                plan.zero_group_size));
    return;
  }
  const bool has_other = plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel > 1;
  if (plan.zero_stage == 0 &&
      (plan.context_parallel > 1 || (plan.data_parallel > 1 && has_other))) {
    refusals.Refuse("plan.zero_stage",
                    "0 with other parallelism; torchtitan replicates whole weights only in plain "
                    "data parallelism");
  }
  parallelism["data_parallel_replicate_degree"] = ranks->replicas;
  parallelism["data_parallel_shard_degree"] = ranks->shards;
  if (plan.zero_stage > 0) {
    parallelism["fsdp_reshard_after_forward"] = plan.zero_stage == 3 ? "always" : "never";
  }
}

std::string_view ScheduleName(Schedule schedule) {
  switch (schedule) {
    case Schedule::kGpipe:
      return "GPipe";
    case Schedule::k1f1b:
      return "1F1B";
    case Schedule::kInterleaved1f1b:
      return "Interleaved1F1B";
    case Schedule::kZbV:
      return "ZBVZeroBubble";
    case Schedule::kDualpipeV:
      return "DualPipeV";
    case Schedule::kZbH1:
    case Schedule::kDualpipe:
    case Schedule::kChimera:
      break;
  }
  return "";  // refused
}

// Returns the number of model parts that a rank of the pipeline runs.
int PartsPerRank(const ParallelPlan& plan) {
  const bool is_v = plan.schedule == Schedule::kZbV || plan.schedule == Schedule::kDualpipeV;
  return is_v ? 2 : plan.virtual_pipeline;
}

// Returns the layers of each model part in the order of the model: looped schedules go through the
// ranks again and again, V-shaped ones back and forth.
std::vector<int> PartLayers(const ParallelPlan& plan, const std::vector<int>& stage_layers) {
  const int parts = PartsPerRank(plan);
  const bool is_v = parts > 1 && plan.virtual_pipeline != parts;
  std::vector<int> layers;
  for (int part = 0; part < parts; ++part) {
    std::vector<int> round = stage_layers;
    if (is_v && part == 1) std::ranges::reverse(round);
    for (const int count : round) layers.push_back(count / parts);
  }
  return layers;
}

Json ModuleNames(const std::vector<int>& part_layers) {
  Json parts = Json::array();
  int next = 0;
  for (std::size_t part = 0; part < part_layers.size(); ++part) {
    Json names = Json::array();
    if (part == 0) names.push_back("tok_embeddings");
    for (int i = 0; i < part_layers[part]; ++i) names.push_back(fmt::format("layers.{}", next++));
    if (part + 1 == part_layers.size()) {
      names.push_back("norm");
      names.push_back("output");
    }
    parts.push_back(std::move(names));
  }
  return parts;
}

void SetPipeline(const Problem& problem, const ParallelPlan& plan, Json& parallelism,
                 Refusals& refusals) {
  parallelism["pipeline_parallel_degree"] = plan.pipeline_parallel;
  if (plan.pipeline_parallel == 1) return;
  parallelism["pipeline_parallel_schedule"] = ScheduleName(plan.schedule);
  parallelism["pipeline_parallel_microbatch_size"] = plan.micro_batch_size;
  const std::vector<int> layers = LayersPerStage(plan, problem.model, problem.profile);
  const int parts = PartsPerRank(plan);
  if (std::ranges::any_of(layers, [&](int count) { return count % parts != 0; })) {
    refusals.Refuse("plan.virtual_pipeline",
                    fmt::format("{} parts of stages of [{}] layers; this exporter divides stages "
                                "into equal parts",
                                parts, fmt::join(layers, ", ")));
    return;
  }
  const std::vector<int> part_layers = PartLayers(plan, layers);
  if (std::ranges::count(part_layers, part_layers.front()) == std::ssize(part_layers)) {
    parallelism["pipeline_parallel_layers_per_stage"] = part_layers.front();
    parallelism["pipeline_parallel_first_stage_less_layers"] = 0;
    parallelism["pipeline_parallel_last_stage_less_layers"] = 0;
  } else {
    parallelism["module_fqns_per_model_part"] = ModuleNames(part_layers);
  }
}

void SetContext(const Problem& problem, const ParallelPlan& plan, Json& parallelism,
                Refusals& refusals) {
  parallelism["context_parallel_degree"] = plan.context_parallel;
  if (plan.context_parallel > 1) {
    parallelism["context_parallel_rotate_method"] =
        plan.context_parallel_kind == ContextParallelKind::kRing ? "alltoall" : "allgather";
  }
  const int divisor =
      plan.tensor_parallel * (plan.context_parallel > 1 ? 2 * plan.context_parallel : 1);
  if (problem.workload.sequence_length % divisor != 0) {
    refusals.Refuse("plan.context_parallel",
                    fmt::format("{}; torchtitan wants sequence_length = {} to be a multiple of {}",
                                plan.context_parallel, problem.workload.sequence_length, divisor));
  }
}

// Experts take their ranks from sharded data and context parallelism, and from tensor parallelism
// too unless their own is the same (torchtitan/distributed/parallel_dims.py).
void SetExperts(const Problem& problem, const ParallelPlan& plan, Json& parallelism,
                Refusals& refusals) {
  if (!problem.model.moe.has_value()) return;
  parallelism["expert_parallel_degree"] = plan.expert_parallel;
  parallelism["expert_tensor_parallel_degree"] = plan.expert_tensor_parallel;
  const bool is_same = plan.expert_tensor_parallel == plan.tensor_parallel;
  const bool is_known = is_same || (plan.expert_tensor_parallel == 1 && plan.expert_parallel > 1);
  if (!is_known) {
    refusals.Refuse("plan.expert_tensor_parallel",
                    fmt::format("{}; torchtitan has the tensor parallelism of the other weights "
                                "({}), or 1 with expert parallelism",
                                plan.expert_tensor_parallel, plan.tensor_parallel));
  }
  const std::optional<DataRanks> ranks = DataRanksOf(plan);
  if (plan.expert_parallel == 1 || !ranks.has_value()) return;
  const int least = plan.context_parallel * (is_same ? 1 : plan.tensor_parallel);
  const int most = ranks->shards * least;
  if (plan.expert_parallel % least != 0 || most % plan.expert_parallel != 0) {
    refusals.Refuse("plan.expert_parallel",
                    fmt::format("{}; torchtitan wants a multiple of {} that divides {}",
                                plan.expert_parallel, least, most));
  }
}

void SetRecompute(const Problem& problem, const ParallelPlan& plan, Json& config,
                  Refusals& refusals) {
  Json& checkpoint = config["activation_checkpoint"];
  switch (RecomputeFormOf(problem, plan)) {
    case RecomputeForm::kNothing:
      checkpoint["mode"] = "none";
      return;
    case RecomputeForm::kEveryLayer:
      checkpoint["mode"] = "full";
      return;
    case RecomputeForm::kSelective:
      checkpoint["mode"] = "selective";
      checkpoint["selective_ac_option"] = "op";
      return;
    case RecomputeForm::kSomeLayers:
      break;
  }
  const std::optional<int> interval = RecomputeInterval(problem.model, problem.profile, plan);
  if (!interval.has_value()) {
    refusals.Refuse("plan.recompute.layer_counts",
                    fmt::format("[{}]; torchtitan recomputes every n-th layer",
                                fmt::join(plan.recompute.layer_counts, ", ")));
    return;
  }
  checkpoint["mode"] = "selective";
  checkpoint["selective_ac_option"] = fmt::format("{}", *interval);
}

// torch.compile fuses the loss, and overlaps tensor parallelism.
void SetCompile(const Problem& problem, const ParallelPlan& plan, Json& config) {
  const bool is_overlapped = plan.tensor_parallel > 1 && problem.workload.overlap.tensor_parallel;
  Json components = Json::array();
  if (is_overlapped) components.push_back("model");
  if (problem.workload.cross_entropy_kernel == KernelFusion::kFused) components.push_back("loss");
  if (is_overlapped) config["parallelism"]["enable_async_tensor_parallel"] = true;
  config["compile"]["enable"] = !components.empty();
  if (!components.empty()) config["compile"]["components"] = std::move(components);
}

std::vector<std::string> LeftOut(const ModelSpec& model) {
  std::vector<std::string> left_out = {
      "model.name and model.flavor, which stand for sizes that torchtitan has in Python; the plan "
      "is for " +
          ModelSizes(model),
      "other facts of the flavor: rope_theta and its scaling, norm_eps, qk_norm, biases of "
      "queries, keys and values",
      "data and tokenizer: training.dataset, training.dataset_path, model.hf_assets_path",
      "length and learning rate: training.steps, optimizer.lr, lr_scheduler.warmup_steps, "
      "training.max_norm",
      "checkpoints: checkpoint.enable, checkpoint.folder, checkpoint.interval"};
  if (model.moe.has_value()) {
    left_out.emplace_back(
        "of the flavor's router: score_func, route_norm, route_scale, "
        "load_balance_coeff, num_expert_groups, use_grouped_mm");
  }
  return left_out;
}

}  // namespace

LaunchConfig ExportTorchtitan(const Problem& problem, const ParallelPlan& plan,
                              Refusals& refusals) {
  const bool is_gpt_oss = FamilyOf(problem.model) == ModelFamily::kGptOss;
  RefuseInexpressible(problem, plan, is_gpt_oss ? kExpressibleGptOss : kExpressible, refusals);
  Json config = Json::object();
  SetPrecision(problem.workload, config);
  config["optimizer"]["name"] = "AdamW";
  SetTraining(problem, plan, config);
  Json& parallelism = config["parallelism"];
  SetDataParallel(plan, parallelism, refusals);
  parallelism["tensor_parallel_degree"] = plan.tensor_parallel;
  SetPipeline(problem, plan, parallelism, refusals);
  SetContext(problem, plan, parallelism, refusals);
  SetExperts(problem, plan, parallelism, refusals);
  SetRecompute(problem, plan, config, refusals);
  SetCompile(problem, plan, config);
  return {.text = TomlText(config),
          .file_name = "plan.toml",
          .versions = "0.2",
          .command = TorchrunCommand(JobSizeOf(problem, plan),
                                     "-m torchtitan.train --job.config_file plan.toml"),
          .left_out = LeftOut(problem.model)};
}

}  // namespace meshwright
