#include "search_space/import/linear_layers.h"

#include <fmt/format.h>

#include <cstddef>
#include <vector>

#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Qwen3-Next: every fourth layer has full attention, unless the file says which.
constexpr int kGatedDeltaFullInterval = 4;

// Ring-linear: the last layer of each group has full attention and the others have lightning
// attention, with a head of keys and values for each head, a gate and a norm of its output
// (BailingMoeV2LinearAttention beside its weights). Returns 0 if the file has no groups, or if
// their full attention is latent: the linear attention of those files differs (KDA in Ling 3).
int GroupSize(ConfigReader& config) {
  if (!config.Has("layer_group_size") || config.Has("kv_lora_rank")) return 0;
  config.Ignore("group_norm_size");  // groups of the norm, which has a weight for each channel
  return config.Integer({"layer_group_size"}).value_or(0);
}

}  // namespace

void ReadLinearAttention(ConfigReader& config, ModelSpec& model) {
  if (config.Has("linear_num_value_heads")) {
    model.linear_attention =
        LinearAttentionSpec{.kind = LinearAttentionKind::kGatedDelta,
                            .key_head_count = config.Size({"linear_num_key_heads"}),
                            .value_head_count = config.Size({"linear_num_value_heads"}),
                            .key_head_dim = config.Size({"linear_key_head_dim"}),
                            .value_head_dim = config.Size({"linear_value_head_dim"}),
                            .convolution_size = config.Size({"linear_conv_kernel_dim"})};
  }
  config.Object("linear_attn_config", [&](ConfigReader& own) {
    const int heads = own.Size({"num_heads"});
    const int width = own.Size({"head_dim"});
    model.linear_attention =
        LinearAttentionSpec{.kind = LinearAttentionKind::kKimiDelta,
                            .key_head_count = heads,
                            .value_head_count = heads,
                            .key_head_dim = width,
                            .value_head_dim = width,
                            .convolution_size = own.Size({"short_conv_kernel_size"})};
  });
  if (config.Has("attn_type_list") || GroupSize(config) > 1) {
    model.linear_attention = LinearAttentionSpec{.kind = LinearAttentionKind::kLightning,
                                                 .key_head_count = model.attention_head_count,
                                                 .value_head_count = model.attention_head_count,
                                                 .key_head_dim = model.head_dim,
                                                 .value_head_dim = model.head_dim};
  }
}

namespace {

// Reads a list with a type for each layer. Returns false if it does not fit the layers.
bool ReadAttentionTypes(ConfigReader& config, Layers& layers) {
  if (const auto kinds = config.Integers("attn_type_list"); kinds.has_value()) {
    if (kinds->size() != layers.size()) {
      config.Reject("attn_type_list",
                    fmt::format("must have an entry for each of the {} layers", layers.size()));
      return false;
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if ((*kinds)[i] == 0) layers[i].mixer = TokenMixer::kLinearAttention;
    }
  }
  return true;
}

void ReadKimiDeltaLayers(ConfigReader& config, Layers& layers) {
  config.Object("linear_attn_config", [&](ConfigReader& own) {
    own.Ignore("full_attn_layers");
    for (const int layer : own.Integers("kda_layers").value_or(std::vector<int>())) {
      if (layer < 1 || layer > static_cast<int>(layers.size())) {
        own.Add("kda_layers", fmt::format("{}; must be between 1 and {}", layer, layers.size()));
        continue;
      }
      layers[static_cast<std::size_t>(layer) - 1].mixer = TokenMixer::kLinearAttention;
    }
  });
}

}  // namespace

void ReadLinearLayers(ConfigReader& config, const ModelSpec& model, Layers& layers) {
  if (!ReadAttentionTypes(config, layers)) return;
  ReadKimiDeltaLayers(config, layers);
  const bool is_gated = model.linear_attention.has_value() && config.Has("linear_num_value_heads");
  const int group = GroupSize(config);
  if (group > 1 && layers.size() % static_cast<std::size_t>(group) != 0) {
    config.Reject("layer_group_size", fmt::format("must divide the {} layers", layers.size()));
  }
  const int interval = config.Integer({"full_attention_interval"})
                           .value_or(is_gated ? kGatedDeltaFullInterval : group);
  if (interval <= 0) return;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool is_last = (i + 1) % static_cast<std::size_t>(interval) == 0;
    if (!is_last) layers[i].mixer = TokenMixer::kLinearAttention;
  }
}

}  // namespace meshwright
