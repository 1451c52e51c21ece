#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/megatron_layers.h"
#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"
#include "server/tuner/question/framework_choice.h"

namespace meshwright {
namespace {

constexpr std::pair<std::string_view, NormKind> kNormWords[] = {{"LayerNorm", NormKind::kLayernorm},
                                                                {"layernorm", NormKind::kLayernorm},
                                                                {"RMSNorm", NormKind::kRmsnorm},
                                                                {"rmsnorm", NormKind::kRmsnorm}};
constexpr std::pair<std::string_view, RouterScore> kScoreWords[] = {
    {"softmax", RouterScore::kSoftmax}, {"sigmoid", RouterScore::kSigmoid}};
constexpr std::pair<std::string_view, MlpKind> kGluWords[] = {{"swiglu", MlpKind::kSwiglu},
                                                              {"geglu", MlpKind::kGeglu}};

// The default of validate_args in Megatron-LM, and of FlagScale if there is a multiple.
int UsualFfn(SettingReader& settings, const ModelSpec& model) {
  const auto multiple = settings.Int("multiple-of");
  const auto multiplier = settings.Number("hidden-dim-multiplier");
  if (model.mlp != MlpKind::kSwiglu) return 4 * model.hidden_size;
  const int two_thirds = static_cast<int>(4.0 * model.hidden_size * 2 / 3);
  if (!multiple.has_value() || *multiple < 1) return two_thirds / 64 * 64;
  const int scaled = static_cast<int>(two_thirds * multiplier.value_or(1.0));
  return *multiple * ((scaled + *multiple - 1) / *multiple);
}

void ReadFeedForward(SettingReader& settings, ModelSpec& model) {
  model.mlp = settings.Switch("swiglu") ? MlpKind::kSwiglu : MlpKind::kGelu;
  const auto glu = settings.Choice<MlpKind>("glu-activation", kGluWords);
  if (glu.has_value()) model.mlp = *glu;
  if (settings.Switch("squared-relu")) model.mlp = MlpKind::kSquaredRelu;
  if (settings.Switch("quick-geglu")) model.mlp = MlpKind::kQuickGeglu;
  model.glu_offset = settings.Number("glu-linear-offset").value_or(0);
  model.activation_clamp = settings.Number("activation-func-clamp-value");
  if (!IsGated(model.mlp) && model.glu_offset != 0) {
    settings.Note("glu-linear-offset has no effect on a feed-forward without a gate");
    model.glu_offset = 0;
  }
  const auto stated = settings.Int("ffn-hidden-size");
  const int usual = UsualFfn(settings, model);
  model.ffn_hidden_size = stated.value_or(usual);
}

void ReadAttention(SettingReader& settings, ModelSpec& model) {
  model.attention_head_count = settings.Int("num-attention-heads").value_or(0);
  const bool is_grouped = settings.Switch("group-query-attention");
  const auto groups = settings.Int("num-query-groups");
  model.kv_head_count = is_grouped ? groups.value_or(1) : model.attention_head_count;
  if (const auto heads = settings.Int("num-key-value-heads")) model.kv_head_count = *heads;
  if (!is_grouped && groups.has_value() && *groups != model.attention_head_count) {
    settings.Note(
        fmt::format("num-query-groups = {} without group-query-attention has no effect", *groups));
  }
  const int usual =
      model.attention_head_count > 0 ? model.hidden_size / model.attention_head_count : 0;
  model.head_dim = settings.Int("kv-channels").value_or(usual);
}

void ReadLatentAttention(SettingReader& settings, ModelSpec& model) {
  const bool is_stated =
      settings.Switch("multi-latent-attention") || settings.Switch("multi-head-latent-attention");
  // Programs whose attention is always latent state only its rank.
  if (!is_stated && !settings.Has("kv-lora-rank")) return;
  // The defaults are those of MLATransformerConfig in Megatron-Core.
  MlaSpec mla;
  mla.q_lora_rank = settings.Int("q-lora-rank").value_or(0);
  mla.kv_lora_rank = settings.Int("kv-lora-rank").value_or(32);
  mla.qk_nope_head_dim =
      settings.Int("qk-head-dim").value_or(settings.Int("qk-nope-head-dim").value_or(128));
  mla.qk_rope_head_dim =
      settings.Int("qk-pos-emb-head-dim").value_or(settings.Int("qk-rope-head-dim").value_or(64));
  mla.v_head_dim = settings.Int("v-head-dim").value_or(128);
  model.mla = mla;
  model.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  model.kv_head_count = model.attention_head_count;
}

// Reads the stretching of rotary positions. --rope-type alone stretches nothing.
void ReadRopeScaling(SettingReader& settings, ModelSpec& model) {
  constexpr std::string_view kYarnFactor = "rotary-scaling-factor";
  constexpr std::string_view kLlamaFactor = "rope-scaling-factor";
  if (model.mla.has_value() && settings.IsSet(kYarnFactor)) {
    const bool is_plain = settings.Text("rope-type") == "rope";
    const RopeScaling scaling = {.factor = settings.Number(kYarnFactor).value_or(1),
                                 .mscale = settings.Number("mscale"),
                                 .mscale_all_dim = settings.Number("mscale-all-dim")};
    if (!is_plain) model.rope_scaling = scaling;
  } else if (settings.Switch("use-rope-scaling")) {
    constexpr double kUsual = 8;  // of Llama 3.1
    model.rope_scaling = RopeScaling{.kind = RopeScalingKind::kLlama3,
                                     .factor = settings.Number(kLlamaFactor).value_or(kUsual)};
  }
}

// Megatron gives every linear layer a bias unless it is told not to.
void ReadBiases(SettingReader& settings, ModelSpec& model) {
  const bool is_off =
      settings.Switch("disable-bias-linear") || !settings.Bool("add-bias-linear").value_or(true);
  const bool of_qkv = settings.Switch("add-qkv-bias");
  const LinearBiases rest = of_qkv ? LinearBiases::kQkv : LinearBiases::kNone;
  SetBiases(is_off ? rest : LinearBiases::kAll, model);
}

// Reads the score that takes a share of each head's softmax.
void ReadSinks(SettingReader& settings, ModelSpec& model) {
  const std::string type = settings.Text("softmax-type").value_or("vanilla");
  model.attention_sinks = type == "learnable";
  if (type == "vanilla" || type == "learnable") return;
  settings.Refuse("softmax-type", type + "; read are vanilla and learnable");
}

// A script with sinks runs with a release that has them.
void NoteVersionOfSinks(const ModelSpec& model, SettingReader& settings, ImportedJob& job) {
  if (!model.attention_sinks || job.workload.framework_version.has_value() ||
      job.workload.framework_name != "megatron-core") {
    return;
  }
  job.workload.framework_version = kLaterMegatron;
  settings.Note(fmt::format(
      "softmax-type: read as a job of version {}, the first release that has it", kLaterMegatron));
}

// Reads what Megatron's flags say about the model beside its sizes.
void ReadStated(SettingReader& settings, ModelSpec& model) {
  const bool has_qk_norm = settings.Switch("qk-layernorm");
  model.qk_norm = has_qk_norm && !model.mla.has_value();  // latent attention has norms in any case
  ReadBiases(settings, model);
  ReadSinks(settings, model);
  model.rotary_base = settings.Number("rotary-base");
  const auto epsilon = settings.Number("norm-epsilon");
  const auto old_epsilon = settings.Number("layernorm-epsilon");
  model.norm_epsilon = epsilon.has_value() ? epsilon : old_epsilon;
  ReadRopeScaling(settings, model);
}

void ReadRouter(SettingReader& settings, MoeSpec& moe) {
  moe.router_score = settings.Choice<RouterScore>("moe-router-score-function", kScoreWords);
  moe.group_count = settings.Int("moe-router-num-groups").value_or(0);
  moe.groups_per_token = settings.Int("moe-router-group-topk").value_or(0);
  moe.routed_scaling_factor = settings.Number("moe-router-topk-scaling-factor");
  moe.router_bias = settings.Switch("moe-router-enable-expert-bias");
}

void ReadExperts(SettingReader& settings, ModelSpec& model) {
  const auto count = settings.Int("num-experts");
  // DeepSpeed lists a number for each group of layers; one number is the common case.
  if (!count.has_value() || *count <= 1) return;
  MoeSpec moe = {.expert_count = *count};
  moe.experts_per_token =
      settings.Int("moe-router-topk").value_or(settings.Int("topk").value_or(2));
  const auto size = settings.Int("moe-ffn-hidden-size");
  const auto old_size = settings.Int("moe-intermediate-size");
  moe.expert_ffn_hidden_size = size.value_or(old_size.value_or(model.ffn_hidden_size));
  const auto shared = settings.Has("n-shared-experts") ? settings.Int("n-shared-experts")
                                                       : settings.Int("num-shared-experts");
  settings.Switch("enable-shared-expert");
  if (shared.has_value()) {
    moe.shared_expert_ffn_hidden_size = *shared * moe.expert_ffn_hidden_size;
  }
  if (const auto of_all = settings.Int("moe-shared-expert-intermediate-size")) {
    moe.shared_expert_ffn_hidden_size = *of_all;
  }
  ReadRouter(settings, moe);
  model.moe = moe;
}

}  // namespace

void ReadMegatronModel(SettingReader& settings, ImportedJob& job) {
  if (!settings.Has("num-layers") && !settings.Has("hidden-size")) {
    return;  // the recipe or the checkpoint has the sizes
  }
  ModelSpec model;
  const int idle = static_cast<int>(settings.Ints("noop-layers").size());  // MindSpeed's padding
  model.layer_count = settings.Int("num-layers").value_or(idle) - idle;
  model.hidden_size = settings.Int("hidden-size").value_or(0);
  ReadFeedForward(settings, model);
  ReadAttention(settings, model);
  ReadLatentAttention(settings, model);
  model.norm =
      settings.Choice<NormKind>("normalization", kNormWords).value_or(NormKind::kLayernorm);
  model.tied_embeddings = !settings.Switch("untie-embeddings-and-output-weights");
  const auto vocabulary = settings.Int("vocab-size");
  const auto padded = settings.Int("padded-vocab-size");
  model.vocab_size = vocabulary.value_or(padded.value_or(0));
  ReadExperts(settings, model);
  ReadMegatronLayers(settings, job, model);
  ReadStated(settings, model);
  NoteVersionOfSinks(model, settings, job);
  model.mtp_layer_count = settings.Int("mtp-num-layers").value_or(0);
  const std::pair<std::string_view, int> sizes[] = {
      {"num-layers", model.layer_count},
      {"hidden-size", model.hidden_size},
      {"num-attention-heads", model.attention_head_count}};
  for (const auto& [key, value] : sizes) {
    if (value == 0) settings.Refuse(key, "is not stated; Megatron has no default for it");
  }
  if (model.vocab_size == 0) job.missing_of_model.emplace_back("vocab_size (--vocab-size)");
  job.model = model;
}

}  // namespace meshwright
