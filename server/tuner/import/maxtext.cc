#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
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

// Names and defaults are those of src/MaxText/configs/base.yml.
constexpr std::pair<std::string_view, GradientDtype> kGradientWords[] = {
    {"float32", GradientDtype::kFp32}, {"bfloat16", GradientDtype::kBf16}};
constexpr std::pair<std::string_view, Precision> kDtypeWords[] = {
    {"bfloat16", Precision::kBf16}, {"float32", Precision::kFp32}, {"float16", Precision::kFp16}};
constexpr std::pair<std::string_view, Optimizer> kOptimizerWords[] = {
    {"adamw", Optimizer::kAdam}, {"adam_pax", Optimizer::kAdam}, {"sgd", Optimizer::kSgd}};
constexpr std::pair<std::string_view, ContextParallelKind> kContextWords[] = {
    {"all_gather", ContextParallelKind::kAllGather}, {"ring", ContextParallelKind::kRing}};
// "autoselected" leaves the choice to MaxText.
constexpr std::pair<std::string_view, std::optional<AttentionKernel>> kAttentionWords[] = {
    {"dot_product", AttentionKernel::kUnfused},
    {"flash", std::nullopt},
    {"autoselected", std::nullopt},
    {"cudnn_flash_te", AttentionKernel::kCudnn},
    {"cudnn_flash_jax", AttentionKernel::kCudnn}};

constexpr int kMaxDevices = 1'000'000;

// Returns the devices of an axis: those inside a fabric by those across. -1 stands for the rest.
class Mesh {
 public:
  Mesh(SettingReader& settings, const ReaderContext& context) {
    long long product = 1;
    for (const char* name : kNames) {
      for (const char* scope : {"ici", "dcn"}) {
        const std::string key = fmt::format("{}_{}_parallelism", scope, name);
        const int size = settings.Int(key).value_or(1);
        if (size == -1) rest_key_ = key;
        sizes_.emplace_back(key, size);
        if (size < -1 || size == 0 || size > kMaxDevices) {
          settings.Refuse(key,
                          fmt::format("{}; must be -1, or between 1 and {}", size, kMaxDevices));
        }
        product = std::min<long long>(product * std::clamp(size, 1, kMaxDevices), kMaxDevices);
      }
    }
    const bool has_rest = !rest_key_.empty();
    if (!context.devices.has_value()) {
      if (has_rest) settings.Refuse(rest_key_, "-1; the number of devices is not known");
      return;
    }
    if (*context.devices % product != 0 || (!has_rest && *context.devices != product)) {
      settings.Refuse("ici_ and dcn_ parallelism",
                      fmt::format("{} in all; must be the {} devices", product, *context.devices));
      return;
    }
    rest_ = static_cast<int>(*context.devices / product);
  }

  [[nodiscard]] int Axis(std::string_view name) const {
    int product = 1;
    for (const auto& [key, size] : sizes_) {
      if (key.substr(4) != fmt::format("{}_parallelism", name)) continue;
      product *= size == -1 ? rest_ : size;
    }
    return product;
  }

  // Returns the number of all devices.
  [[nodiscard]] int Devices() const {
    int product = 1;
    for (const char* name : kNames) product *= Axis(name);
    return product;
  }

 private:
  static constexpr const char* kNames[] = {
      "data",          "pipeline", "fsdp",   "fsdp_transpose",   "context",
      "tensor",        "sequence", "expert", "tensor_transpose", "tensor_sequence",
      "autoregressive"};
  std::vector<std::pair<std::string, int>> sizes_;
  std::string rest_key_;
  int rest_ = 1;
};

void ReadExperts(SettingReader& settings, ModelSpec& model) {
  const int experts = settings.Int("num_experts").value_or(1);
  if (experts <= 1) return;
  MoeSpec moe = {.expert_count = experts,
                 .experts_per_token = settings.Int("num_experts_per_tok").value_or(1)};
  moe.expert_ffn_hidden_size = settings.Int("base_moe_mlp_dim").value_or(model.ffn_hidden_size);
  moe.first_dense_layer_count = settings.Int("first_num_dense_layers").value_or(0);
  moe.shared_expert_ffn_hidden_size =
      settings.Int("shared_experts").value_or(0) * moe.expert_ffn_hidden_size;
  if (moe.first_dense_layer_count == 0) model.ffn_hidden_size = 0;  // no layer is dense
  model.moe = moe;
}

// Returns layers of which the last of each so many has full attention and the others a window.
std::vector<LayerRun> WindowedLayers(int layer_count, int interval, const LayerKind& kind,
                                     int window) {
  std::vector<LayerRun> runs;
  const auto add = [&](int count, int tokens) {
    if (count == 0) return;
    runs.push_back({.count = count, .kind = kind});
    runs.back().kind.sliding_window = tokens;
  };
  const int pattern = layer_count % interval == 0 ? interval : layer_count;
  for (int first = 0; first < pattern; first += interval) {
    const int left = std::min(interval, pattern - first);
    add(std::min(left, interval - 1), window);
    add(left == interval ? 1 : 0, 0);
  }
  return runs;
}

// Reads the layers for which MaxText has a block of their own (decoder_block).
void ReadBlock(SettingReader& settings, std::string_view block, ModelSpec& model) {
  const int window = settings.Int("sliding_window_size").value_or(0);
  const auto soft_cap = [&](std::string_view key) {
    const std::optional<double> cap = settings.Number(key);
    return cap.value_or(0) > 0 ? cap : std::nullopt;
  };
  LayerKind kind;
  int interval = 0;
  if (block == "gemma") model.embedding_scale = std::sqrt(model.hidden_size);
  if (block == "gemma2") {
    interval = 2;
    model.layer_count *= 2;  // a block is two layers
    model.attention_soft_cap = soft_cap("attn_logits_soft_cap");
    model.output_soft_cap = soft_cap("final_logits_soft_cap");
    const bool is_after = settings.Switch("use_post_attn_norm");
    model.post_norms = settings.Switch("use_post_ffw_norm") && is_after;
    model.embedding_scale = std::sqrt(model.hidden_size);
  } else if (block == "gemma3") {
    interval = 6;
    model.qk_norm = true;
    const bool is_after = settings.Switch("use_post_attn_norm");
    model.post_norms = settings.Switch("use_post_ffw_norm") && is_after;
    model.embedding_scale = std::sqrt(model.hidden_size);
  } else if (block == "gpt_oss") {
    interval = settings.Int("inhomogeneous_layer_cycle_interval").value_or(1);
    const bool of_attention = settings.Switch("attention_bias");
    const bool of_experts = settings.Switch("mlp_bias") && settings.Switch("routed_bias");
    if (of_attention && of_experts) SetBiases(LinearBiases::kAll, model);
    model.attention_sinks = settings.Switch("attention_sink");
    model.activation_clamp = settings.Number("mlp_activations_limit");
    model.mlp = MlpKind::kQuickGeglu;
    model.glu_offset = 1;
    kind.feed_forward = FeedForwardKind::kExperts;
  }
  if (interval > 1) model.layers = WindowedLayers(model.layer_count, interval, kind, window);
}

void ReadAttention(SettingReader& settings, ModelSpec& model) {
  const std::string type = settings.Text("attention_type").value_or("global");
  if (type == "local_sliding") {
    model.sliding_window = settings.Int("sliding_window_size").value_or(0);
  }
  if (type != "mla") return;
  model.mla = MlaSpec{.q_lora_rank = settings.Int("q_lora_rank").value_or(0),
                      .kv_lora_rank = settings.Int("kv_lora_rank").value_or(512),
                      .qk_nope_head_dim = settings.Int("qk_nope_head_dim").value_or(128),
                      .qk_rope_head_dim = settings.Int("qk_rope_head_dim").value_or(64),
                      .v_head_dim = settings.Int("v_head_dim").value_or(128)};
}

void ReadModel(SettingReader& settings, ImportedJob& job) {
  const std::string name = settings.Text("model_name").value_or("default");
  const std::string block = settings.Text("decoder_block").value_or("");
  if (!settings.Has("base_emb_dim")) {
    job.model = NamedModel("maxtext", name);
    if (job.model.has_value()) {
      job.notes.push_back(fmt::format("the sizes of {} are those of MaxText", name));
    } else {
      job.missing_of_model.push_back(
          fmt::format("all sizes (model_name = {} stands for a file of MaxText; known here are {})",
                      name, fmt::join(NamesOfModels("maxtext"), ", ")));
    }
    return;
  }
  ModelSpec model;
  model.layer_count = settings.Int("base_num_decoder_layers").value_or(16);
  model.hidden_size = settings.Int("base_emb_dim").value_or(0);
  model.ffn_hidden_size = settings.Int("base_mlp_dim").value_or(7168);
  model.attention_head_count = settings.Int("base_num_query_heads").value_or(16);
  model.kv_head_count = settings.Int("base_num_kv_heads").value_or(16);
  model.head_dim = settings.Int("head_dim").value_or(128);
  model.vocab_size = settings.Int("vocab_size").value_or(32000);
  model.tied_embeddings =
      settings.Switch("logits_via_embedding") && settings.Has("logits_via_embedding");
  const std::vector<std::string> activations = settings.List("mlp_activations");
  const bool is_gated = activations.size() != 1;
  const bool is_gelu = !activations.empty() && activations.front() == "gelu";
  model.mlp = is_gated ? (is_gelu ? MlpKind::kGeglu : MlpKind::kSwiglu) : MlpKind::kGelu;
  ReadExperts(settings, model);
  ReadAttention(settings, model);
  ReadBlock(settings, block, model);
  model.mtp_layer_count = settings.Int("mtp_num_layers").value_or(0);
  job.model = model;
}

void ReadWorkload(SettingReader& settings, WorkloadRequest& workload) {
  workload.sequence_length = settings.Int("max_target_length").value_or(2048);
  workload.precision = settings.Choice<Precision>("dtype", kDtypeWords).value_or(Precision::kBf16);
  const std::string quantization = settings.Text("quantization").value_or("");
  if (quantization.find("fp8") != std::string::npos) {
    workload.precision = Precision::kFp8;
  } else if (!quantization.empty()) {
    settings.Refuse("quantization", quantization + "; read are fp8 and none");
  }
  settings.Text("weight_dtype");
  workload.gradient_dtype =
      settings.Choice<GradientDtype>("grad_dtype", kGradientWords).value_or(GradientDtype::kFp32);
  workload.optimizer =
      settings.Choice<Optimizer>("opt_type", kOptimizerWords).value_or(Optimizer::kAdam);
  const auto attention =
      settings.Choice<std::optional<AttentionKernel>>("attention", kAttentionWords);
  if (attention.has_value()) workload.attention_kernel = *attention;
  workload.dropout_ratio = settings.Number("dropout_rate").value_or(0.0);
}

void ReadPlan(SettingReader& settings, const ReaderContext& context, const Mesh& mesh,
              ImportedJob& job) {
  PlanRequest& plan = job.plan;
  const ModelSpec* model = ModelOf(context, job);
  plan.tensor_parallel =
      mesh.Axis("tensor") * mesh.Axis("tensor_sequence") * mesh.Axis("tensor_transpose");
  plan.sequence_parallel = mesh.Axis("tensor_sequence") > 1;
  plan.context_parallel = mesh.Axis("context") * mesh.Axis("sequence");
  plan.context_parallel_kind =
      settings.Choice<ContextParallelKind>("context_parallel_strategy", kContextWords)
          .value_or(*plan.context_parallel > 1 ? ContextParallelKind::kAllGather
                                               : ContextParallelKind::kRing);
  plan.pipeline_parallel = mesh.Axis("pipeline");
  plan.schedule = *plan.pipeline_parallel > 1 ? Schedule::kGpipe : Schedule::k1f1b;
  if (model != nullptr && model->moe.has_value()) {
    plan.expert_parallel = mesh.Axis("expert");
    plan.expert_tensor_parallel = *plan.tensor_parallel;
  }
  const int shards = mesh.Axis("fsdp") * mesh.Axis("fsdp_transpose") * mesh.Axis("expert");
  plan.data_parallel = shards * mesh.Axis("data");
  const bool is_sharded = shards * *plan.context_parallel > 1;
  const bool over_data =
      settings.Switch("shard_optimizer_over_data") && settings.Has("shard_optimizer_over_data");
  plan.zero_stage = is_sharded ? 3 : (over_data ? 1 : 0);
  if (is_sharded && mesh.Axis("data") > 1) {
    plan.zero_group_size = shards * *plan.context_parallel;
  }
}

// The batch of a device times the devices is a step without accumulation.
void ReadBatch(SettingReader& settings, const Mesh& mesh, ImportedJob& job) {
  PlanRequest& plan = job.plan;
  const double of_device = settings.Number("per_device_batch_size").value_or(12.0);
  const int steps = std::max(1, settings.Int("gradient_accumulation_steps").value_or(1));
  const auto parts = settings.Int("num_pipeline_microbatches");
  const int stages = *plan.pipeline_parallel;
  settings.Int("num_layers_per_pipeline_stage");
  const int batch = static_cast<int>(of_device * mesh.Devices()) * steps;
  job.workload.global_batch_size = batch;
  int micro_batches = steps;
  if (stages > 1) micro_batches *= parts.value_or(-1) > 0 ? *parts : stages;
  const long long ranks = 1LL * *plan.data_parallel * micro_batches;
  if (ranks < 1 || batch % ranks != 0 || batch == 0) {
    settings.Refuse("per_device_batch_size",
                    fmt::format("{}; gives a global batch of {}, which must be a multiple of data "
                                "parallelism x micro-batches = {}",
                                of_device, batch, ranks));
    return;
  }
  plan.micro_batch_size = static_cast<int>(batch / ranks);
}

void ReadRecompute(SettingReader& settings, PlanRequest& plan) {
  const std::string policy = settings.Text("remat_policy").value_or("full");
  plan.recompute = RecomputePlan{};
  if (policy == "full") {
    plan.recompute = EveryLayer();
  } else if (policy == "minimal") {
    plan.recompute = RecomputePlan{.granularity = RecomputeGranularity::kSelective};
  } else if (policy != "minimal_with_context" && policy != "minimal_flash") {
    settings.Refuse("remat_policy",
                    policy + "; read are full, minimal, minimal_with_context and minimal_flash");
  }
}

}  // namespace

void ReadMaxText(SettingReader& settings, const ReaderContext& context, ImportedJob& job) {
  settings.Text("base_config");
  ReadModel(settings, job);
  ReadWorkload(settings, job.workload);
  const Mesh mesh(settings, context);
  ReadPlan(settings, context, mesh, job);
  ReadBatch(settings, mesh, job);
  ReadRecompute(settings, job.plan);
}

}  // namespace meshwright
