#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/legality/recompute_form.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/exporters.h"
#include "server/tuner/export/expressible.h"
#include "server/tuner/export/model_family.h"
#include "server/tuner/export/text/command_line.h"
#include "server/tuner/export/text/config_text.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

// One program runs all micro-batches forward and then all backward. With several parts a stage it
// goes through the stages again and again.
constexpr Schedule kSchedules[] = {Schedule::kGpipe};
constexpr ContextParallelKind kContextKinds[] = {ContextParallelKind::kAllGather,
                                                 ContextParallelKind::kRing};
constexpr int kZeroStages[] = {0, 1, 3};
constexpr RecomputeForm kRecompute[] = {RecomputeForm::kNothing, RecomputeForm::kSelective,
                                        RecomputeForm::kEveryLayer};
constexpr Precision kPrecisions[] = {Precision::kBf16, Precision::kFp32, Precision::kFp8};
constexpr Fp8Recipe kRecipes[] = {Fp8Recipe::kDelayed};
constexpr GradientDtype kGradients[] = {GradientDtype::kFp32, GradientDtype::kBf16};
constexpr Optimizer kOptimizers[] = {Optimizer::kAdam};
constexpr AttentionKernel kAttention[] = {AttentionKernel::kUnfused, AttentionKernel::kFlash2,
                                          AttentionKernel::kCudnn, AttentionKernel::kVendor};
constexpr MlpKind kMlps[] = {MlpKind::kGelu, MlpKind::kSwiglu, MlpKind::kGeglu};
constexpr MlpKind kBlockMlps[] = {MlpKind::kGeglu, MlpKind::kQuickGeglu};

constexpr Expressible kExpressible = {.framework = "MaxText",
                                      .schedules = kSchedules,
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
                                      .tensor_overlap = true,  // the compiler's
                                      .dropout = true,
                                      .mlps = kMlps,
                                      .experts = true,
                                      .latent_attention = true,
                                      .sliding_window = true,
                                      .multi_token_prediction = true};

// Layers for which MaxText has a decoder block of their own, which BlockOf recognises.
constexpr Expressible kExpressibleBlock = [] {
  Expressible block = kExpressible;
  block.any_layers = true;
  block.mlps = kBlockMlps;
  block.multi_token_prediction = false;
  return block;
}();

// Returns MaxText's name of the layers; "" for those of its usual blocks.
std::string_view BlockOf(const ModelSpec& model) {
  switch (FamilyOf(model)) {
    case ModelFamily::kGemma2:
      return "gemma2";
    case ModelFamily::kGemma3:
      return "gemma3";
    case ModelFamily::kGptOss:
      return "gpt_oss";
    case ModelFamily::kOther:
      break;
  }
  return "";
}

// An axis of the mesh with the ranks inside of a fabric (ici) and across fabrics (dcn).
struct Axis {
  std::string_view name = {};
  int ranks = 1;
};

// Returns the axes with the nearest ranks first, or nullopt if the plan has ranks that MaxText
// cannot arrange so. Experts take ranks of sharded data parallelism.
std::optional<std::vector<Axis>> AxesOf(const Problem& problem, const ParallelPlan& plan,
                                        Refusals& refusals) {
  const std::optional<DataRanks> ranks = DataRanksOf(plan);
  if (!ranks.has_value()) {
    refusals.Refuse("plan.zero_group_size",
                    fmt::format("{}; MaxText shards over whole groups of context parallelism",
                                plan.zero_group_size));
    return std::nullopt;
  }
  const bool is_fsdp = plan.zero_stage == 3;
  const int shards = is_fsdp ? ranks->shards : 1;
  const int replicas = plan.data_parallel / shards;
  if (plan.zero_stage == 1 && ranks->replicas > 1) {
    refusals.Refuse("plan.zero_group_size",
                    fmt::format("{} with ZeRO 1; MaxText shards the optimizer over all replicas",
                                plan.zero_group_size));
  }
  if (plan.zero_stage != 3 && plan.context_parallel > 1) {
    refusals.Refuse("plan.zero_stage",
                    fmt::format("{} with context parallelism, whose ranks shard the weights in "
                                "MaxText",
                                plan.zero_stage));
  }
  const int experts = problem.model.moe.has_value() ? plan.expert_parallel : 1;
  if (experts > 1 && (!is_fsdp || shards % experts != 0)) {
    refusals.Refuse("plan.expert_parallel",
                    fmt::format("{}; MaxText wants a divisor of the {} ranks that shard data",
                                experts, shards));
    return std::nullopt;
  }
  if (problem.model.moe.has_value() && plan.expert_tensor_parallel != plan.tensor_parallel) {
    refusals.Refuse("plan.expert_tensor_parallel",
                    fmt::format("{}; MaxText splits experts as the other weights: {}",
                                plan.expert_tensor_parallel, plan.tensor_parallel));
  }
  const bool splits_sequence = plan.sequence_parallel && plan.tensor_parallel > 1;
  return std::vector<Axis>{
      {.name = splits_sequence ? "tensor_sequence" : "tensor", .ranks = plan.tensor_parallel},
      {.name = "context", .ranks = plan.context_parallel},
      {.name = "expert", .ranks = experts},
      {.name = "fsdp", .ranks = shards / experts},
      {.name = "data", .ranks = replicas},
      {.name = "pipeline", .ranks = plan.pipeline_parallel}};
}

void SetMesh(const Problem& problem, const ParallelPlan& plan, Json& config, Refusals& refusals) {
  const std::optional<std::vector<Axis>> axes = AxesOf(problem, plan, refusals);
  if (!axes.has_value()) return;
  const auto& pools = problem.cluster.pools;
  const int devices = PlanDevices(plan);
  int left = pools.empty() ? devices : std::min(devices, ScaleUpDeviceCount(pools.front()));
  Json across = Json::object();
  for (const Axis& axis : *axes) {
    const int inside = std::gcd(axis.ranks, left);
    left /= inside;
    config[fmt::format("ici_{}_parallelism", axis.name)] = inside;
    across[fmt::format("dcn_{}_parallelism", axis.name)] = axis.ranks / inside;
  }
  config.update(across);
  if (left != 1) {
    refusals.Refuse(
        "plan.data_parallel",
        fmt::format("{}; MaxText's axes do not fill the devices of a fabric", plan.data_parallel));
  }
  config["shard_optimizer_over_data"] = plan.zero_stage == 1;
  if (plan.context_parallel > 1) {
    config["context_parallel_strategy"] =
        plan.context_parallel_kind == ContextParallelKind::kRing ? "ring" : "all_gather";
  }
}

void SetBatch(const Problem& problem, const ParallelPlan& plan, Json& config, Refusals& refusals) {
  const int batch = problem.workload.global_batch_size;
  const int micro_batches = MicroBatchCount(plan, batch);
  const bool has_pipeline = plan.pipeline_parallel > 1;
  const int accumulation = has_pipeline ? 1 : micro_batches;
  const double of_device = static_cast<double>(batch) / accumulation / PlanDevices(plan);
  // MaxText multiplies it with the devices again, and drops the fraction.
  if (static_cast<int>(of_device * PlanDevices(plan)) * accumulation != batch) {
    refusals.Refuse("workload.global_batch_size",
                    fmt::format("{}; MaxText's per_device_batch_size = {} loses a part of it",
                                batch, of_device));
  }
  config["per_device_batch_size"] = of_device;
  config["gradient_accumulation_steps"] = accumulation;
  config["max_target_length"] = problem.workload.sequence_length;
  if (!has_pipeline) return;
  config["num_pipeline_microbatches"] = micro_batches;
  config["num_layers_per_pipeline_stage"] = problem.model.layer_count / plan.pipeline_parallel;
  if (micro_batches % plan.pipeline_parallel != 0 ||
      problem.model.layer_count % plan.pipeline_parallel != 0) {
    refusals.Refuse("plan.pipeline_parallel",
                    fmt::format("{}; MaxText wants a divisor of {} micro-batches and {} layers",
                                plan.pipeline_parallel, micro_batches, problem.model.layer_count));
  }
}

// Returns the value of `hardware`, whose default is "tpu". On several nodes of GPUs each process
// has to find the others (MaxText/max_utils.py: maybe_initialize_jax_distributed_system).
std::string_view HardwareName(const Problem& problem, const ParallelPlan& plan) {
  const auto& pools = problem.cluster.pools;
  if (!pools.empty() && pools.front().chip.vendor == "Google") return "tpu";
  return JobSizeOf(problem, plan).nodes > 1 ? "gpu_multiprocess" : "gpu";
}

std::string_view RematPolicy(RecomputeForm form) {
  switch (form) {
    case RecomputeForm::kNothing:
      return "minimal_with_context";  // keeps all matrix products and the attention
    case RecomputeForm::kSelective:
      return "minimal";
    case RecomputeForm::kEveryLayer:
    case RecomputeForm::kSomeLayers:
      break;
  }
  return "full";  // some layers are refused
}

std::string_view AttentionName(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kUnfused:
      return "dot_product";
    case AttentionKernel::kCudnn:
      return "cudnn_flash_te";
    case AttentionKernel::kFlash2:
    case AttentionKernel::kVendor:
    case AttentionKernel::kFusedSoftmax:
    case AttentionKernel::kFlash1:
    case AttentionKernel::kFlash3:
      break;
  }
  return "flash";  // the last three are refused
}

void SetTraining(const Problem& problem, const ParallelPlan& plan, Json& config) {
  const Workload& workload = problem.workload;
  config["dtype"] = workload.precision == Precision::kFp32 ? "float32" : "bfloat16";
  config["weight_dtype"] = "float32";
  config["grad_dtype"] = workload.gradient_dtype == GradientDtype::kFp32 ? "float32" : "bfloat16";
  config["quantization"] = workload.precision == Precision::kFp8 ? "fp8" : "";
  config["opt_type"] = "adamw";
  config["attention"] = AttentionName(workload.attention_kernel);
  config["remat_policy"] = RematPolicy(RecomputeFormOf(problem, plan));
  config["dropout_rate"] = workload.dropout_ratio;
}

void SetAttention(const ModelSpec& model, Json& config) {
  config["base_num_query_heads"] = model.attention_head_count;
  config["base_num_kv_heads"] = model.kv_head_count;
  config["head_dim"] = model.head_dim;
  if (model.mla.has_value()) {
    config["attention_type"] = "mla";
    config["q_lora_rank"] = model.mla->q_lora_rank;
    config["kv_lora_rank"] = model.mla->kv_lora_rank;
    config["qk_nope_head_dim"] = model.mla->qk_nope_head_dim;
    config["qk_rope_head_dim"] = model.mla->qk_rope_head_dim;
    config["v_head_dim"] = model.mla->v_head_dim;
  } else if (model.sliding_window > 0) {
    config["attention_type"] = "local_sliding";
    config["sliding_window_size"] = model.sliding_window;
  }
}

void SetExperts(const ModelSpec& model, Json& config, Refusals& refusals) {
  if (!model.moe.has_value()) return;
  const MoeSpec& moe = *model.moe;
  config["num_experts"] = moe.expert_count;
  config["num_experts_per_tok"] = moe.experts_per_token;
  config["base_moe_mlp_dim"] = moe.expert_ffn_hidden_size;
  const int shared = moe.shared_expert_ffn_hidden_size / moe.expert_ffn_hidden_size;
  if (config["decoder_block"] == "deepseek") {
    config["first_num_dense_layers"] = moe.first_dense_layer_count;
    config["shared_experts"] = shared;
  }
  if (shared * moe.expert_ffn_hidden_size != moe.shared_expert_ffn_hidden_size) {
    refusals.Refuse("model.moe.shared_expert_ffn_hidden_size",
                    fmt::format("{}; MaxText counts shared experts of {}",
                                moe.shared_expert_ffn_hidden_size, moe.expert_ffn_hidden_size));
  }
}

Json MlpActivations(MlpKind mlp) {
  switch (mlp) {
    case MlpKind::kGelu:
      return Json::array({"gelu"});
    case MlpKind::kSwiglu:
      return Json::array({"silu", "linear"});
    case MlpKind::kGeglu:
      return Json::array({"gelu", "linear"});
    case MlpKind::kQuickGeglu:
      return Json::array({"sigmoid", "linear"});
    case MlpKind::kRelu:
    case MlpKind::kSquaredRelu:
      break;
  }
  return Json::array();
}

// Returns the tokens that layers with a window attend to.
int WindowOf(const ModelSpec& model) {
  int window = 0;
  for (const LayerRun& run : RunsOf(model)) window = std::max(window, run.kind.sliding_window);
  return window;
}

// The sizes of which MaxText builds Gemma 3 (src/MaxText/configs/models/gemma3-*.yml).
struct Gemma3Size {
  std::string_view name = {};
  int layer_count = 0;
  int hidden_size = 0;
  int ffn_hidden_size = 0;
  int attention_head_count = 0;
  int kv_head_count = 0;
  int head_dim = 0;
};
constexpr Gemma3Size kGemma3Sizes[] = {{"gemma3-4b", 34, 2560, 10240, 8, 4, 256},
                                       {"gemma3-12b", 48, 3840, 15360, 16, 8, 256},
                                       {"gemma3-27b", 62, 5376, 21504, 32, 16, 128}};
constexpr int kGemma3Window = 1024;

// Returns MaxText's name of a Gemma 3; "" for one of other sizes.
std::string_view NameOfGemma3(const ModelSpec& model) {
  for (const Gemma3Size& size : kGemma3Sizes) {
    const bool is_same =
        size.layer_count == model.layer_count && size.hidden_size == model.hidden_size &&
        size.ffn_hidden_size == model.ffn_hidden_size &&
        size.attention_head_count == model.attention_head_count &&
        size.kv_head_count == model.kv_head_count && size.head_dim == model.head_dim;
    if (is_same && WindowOf(model) == kGemma3Window) return size.name;
  }
  return "";
}

// Sets the sizes and the block of layers that have one of their own in MaxText
// (src/MaxText/configs/models/gemma2-9b.yml, gpt-oss-20b.yml; layers/gemma3.py).
void SetBlock(const ModelSpec& model, std::string_view block, Json& config, Refusals& refusals) {
  if (block == "gemma3") {
    const std::string_view name = NameOfGemma3(model);
    if (name.empty()) {
      refusals.Refuse("model.layers",
                      "those of Gemma 3 in other sizes; MaxText builds gemma3-4b, gemma3-12b and "
                      "gemma3-27b only (layers/gemma3.py: get_query_pre_attn_scalar)");
    }
    config["model_name"] = name;  // its file has the sizes, and a vocabulary of 262144
    return;
  }
  const bool is_gemma = block == "gemma2";
  config["model_name"] = "default";
  config["decoder_block"] = block;
  // A block of Gemma 2 is a layer with a window and one without.
  config["base_num_decoder_layers"] = is_gemma ? model.layer_count / 2 : model.layer_count;
  config["base_emb_dim"] = model.hidden_size;
  config["base_mlp_dim"] = is_gemma ? model.ffn_hidden_size : model.moe->expert_ffn_hidden_size;
  config["base_num_query_heads"] = model.attention_head_count;
  config["base_num_kv_heads"] = model.kv_head_count;
  config["head_dim"] = model.head_dim;
  config["sliding_window_size"] = WindowOf(model);
  config["mlp_activations"] = MlpActivations(model.mlp);
  config["vocab_size"] = model.vocab_size;
  config["logits_via_embedding"] = model.tied_embeddings;
  if (is_gemma) {
    config["attn_logits_soft_cap"] = *model.attention_soft_cap;
    config["final_logits_soft_cap"] = *model.output_soft_cap;
    config["use_post_attn_norm"] = true;
    config["use_post_ffw_norm"] = true;
    if (model.layer_count % 2 != 0) {
      refusals.Refuse("model.layer_count",
                      fmt::format("{}; MaxText's Gemma 2 has pairs of layers", model.layer_count));
    }
    return;
  }
  config["inhomogeneous_layer_cycle_interval"] = FullAttentionInterval(model);
  config["attention_bias"] = true;
  config["attention_sink"] = true;
  config["mlp_bias"] = true;
  config["routed_bias"] = true;
  config["mlp_activations_limit"] = *model.activation_clamp;
  config["num_experts"] = model.moe->expert_count;
  config["num_experts_per_tok"] = model.moe->experts_per_token;
  config["base_moe_mlp_dim"] = model.moe->expert_ffn_hidden_size;
}

// Refuses what is not known of MaxText's blocks of several layers.
void RefuseInBlocks(const Problem& problem, const ParallelPlan& plan, std::string_view block,
                    Refusals& refusals) {
  if (plan.pipeline_parallel > 1) {
    refusals.Refuse("plan.pipeline_parallel",
                    fmt::format("{}; this exporter has no pipeline of MaxText's block {}, which "
                                "is several layers",
                                plan.pipeline_parallel, block));
  }
  const bool has_flash_of_te = problem.workload.attention_kernel == AttentionKernel::kCudnn;
  if (has_flash_of_te && block != "gemma3") {
    refusals.Refuse("workload.attention_kernel",
                    "cudnn; MaxText's cudnn_flash_te has neither sinks nor soft caps "
                    "(layers/attention_op.py: cudnn_flash_attention)");
  }
}

void SetModel(const ModelSpec& model, Json& config, Refusals& refusals) {
  const bool is_deepseek = model.moe.has_value() && (model.moe->first_dense_layer_count > 0 ||
                                                     model.moe->shared_expert_ffn_hidden_size > 0);
  if (is_deepseek != model.mla.has_value()) {
    refusals.Refuse("model.mla",
                    "not together with shared experts or first dense layers; MaxText has latent "
                    "attention in its deepseek layers only, and only with it");
  }
  config["model_name"] = "default";
  // Gemma 1 is a Llama whose embeddings are scaled.
  const bool is_gemma = model.mlp == MlpKind::kGeglu && model.embedding_scale.has_value();
  const std::string_view plain = is_gemma ? "gemma" : "llama2";
  config["decoder_block"] = is_deepseek ? "deepseek" : (model.moe.has_value() ? "mixtral" : plain);
  config["base_num_decoder_layers"] = model.layer_count;
  config["base_emb_dim"] = model.hidden_size;
  config["base_mlp_dim"] = model.ffn_hidden_size > 0 || !model.moe.has_value()
                               ? model.ffn_hidden_size
                               : model.moe->expert_ffn_hidden_size;
  config["mlp_activations"] = MlpActivations(model.mlp);
  SetAttention(model, config);
  config["vocab_size"] = model.vocab_size;
  config["logits_via_embedding"] = model.tied_embeddings;
  SetExperts(model, config, refusals);
  if (model.mtp_layer_count > 0) config["mtp_num_layers"] = model.mtp_layer_count;
}

std::vector<std::string> LeftOut(const ModelSpec& model) {
  std::vector<std::string> left_out = {
      model.layers.empty()
          ? "the model's normalization_layer_epsilon, rope_max_timescale, rope_type, "
            "attention_bias "
            "and use_qk_norm"
          : "the model's normalization_layer_epsilon, rope_max_timescale, rope_type and its "
            "factors, local_rope_max_timescale",
      "data and tokenizer: dataset_type, dataset_path, tokenizer_path",
      "length and learning rate: steps, learning_rate, warmup_steps_fraction, "
      "gradient_clipping_threshold",
      "checkpoints and names: base_output_directory, run_name, checkpoint_period",
      "on several nodes: the launcher that starts the command on each of them",
      "in the compiler's hands: a fused loss"};
  if (model.moe.has_value()) {
    left_out.emplace_back(
        "of the router: routed_score_func, routed_scaling_factor, routed_bias, n_routing_groups, "
        "topk_routing_group, load_balance_loss_weight, capacity_factor");
  }
  if (model.mtp_layer_count > 0) left_out.emplace_back("mtp_loss_scaling_factor");
  return left_out;
}

}  // namespace

LaunchConfig ExportMaxText(const Problem& problem, const ParallelPlan& plan, Refusals& refusals) {
  const std::string_view block = BlockOf(problem.model);
  RefuseInexpressible(problem, plan, block.empty() ? kExpressible : kExpressibleBlock, refusals);
  Json config = Json::object();
  config["base_config"] = "base.yml";
  config["hardware"] = HardwareName(problem, plan);
  SetMesh(problem, plan, config, refusals);
  SetBatch(problem, plan, config, refusals);
  SetTraining(problem, plan, config);
  if (block.empty()) {
    SetModel(problem.model, config, refusals);
  } else {
    RefuseInBlocks(problem, plan, block, refusals);
    SetBlock(problem.model, block, config, refusals);
  }
  return {.text = YamlText(config),
          .file_name = "plan.yml",
          .versions = "2025 (src/MaxText/configs/base.yml)",
          .command = "python3 -m MaxText.train plan.yml",
          .left_out = LeftOut(problem.model)};
}

}  // namespace meshwright
