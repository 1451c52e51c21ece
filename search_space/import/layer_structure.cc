#include "search_space/import/layer_structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/import/layer_runs.h"
#include "search_space/import/linear_layers.h"
#include "search_space/import/shortcut_layers.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Far above every model's; a longer list is not made.
constexpr int kMaxLayers = 10'000;
// Llama 4: every fourth layer has neither rotary embedding nor chunks, unless the file says which.
constexpr int kLlama4FullInterval = 4;

constexpr Keys kExpertCounts = {"num_local_experts", "num_experts", "n_routed_experts",
                                "moe_num_experts"};

// Calls `set` with each layer's entry of a list that must have one for each layer.
template <typename Entry, typename Set>
void ForEach(ConfigReader& config, const char* key, const std::vector<Entry>& entries,
             Layers& layers, const Set& set) {
  if (entries.size() != layers.size()) {
    config.Reject(key, fmt::format("must have an entry for each of the {} layers", layers.size()));
    return;
  }
  for (std::size_t i = 0; i < entries.size(); ++i) set(entries[i], layers[i]);
}

// Calls `set` with every layer whose index from 0 is `choose`n.
template <typename Choose, typename Set>
void Where(Layers& layers, const Choose& choose, const Set& set) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (choose(static_cast<int>(i))) set(layers[i]);
  }
}

void ReadLatentAttention(ConfigReader& config, const Family& family, ModelSpec& model) {
  if (!config.Has("kv_lora_rank")) return;
  config.Ignore("head_dim");
  MlaSpec mla;
  // Null projects queries directly (DeepSeek-V2-Lite); an absent key takes the class's rank.
  const bool states_rank = config.config().contains("q_lora_rank");
  mla.q_lora_rank = config.Integer({"q_lora_rank"}).value_or(states_rank ? 0 : family.q_lora_rank);
  mla.kv_lora_rank = config.Size({"kv_lora_rank"});
  mla.qk_nope_head_dim = config.Size({"qk_nope_head_dim"});
  mla.qk_rope_head_dim = config.Size({"qk_rope_head_dim"});
  if (family.v_head_dim_is_derived && !config.Has("v_head_dim")) {
    mla.v_head_dim = model.hidden_size / std::max(1, model.attention_head_count);
  } else {
    mla.v_head_dim = config.Size({"v_head_dim"});
  }
  if (config.Has("index_topk")) {
    mla.index_token_count = config.Size({"index_topk"});
    mla.index_head_count = config.Size({"index_n_heads"});
    mla.index_head_dim = config.Size({"index_head_dim"});
  }
  // Latent attention states its own head sizes; ModelSpec::head_dim is the part without rotary
  // embedding. What files say under head_dim is used by nobody.
  model.head_dim = mla.qk_nope_head_dim;
  model.mla = mla;
}

// Mamba-1 has a head for each channel. Its classes double the hidden size unless the file says
// otherwise (MambaConfig.expand).
StateSpaceSpec ReadChannels(ConfigReader& config, const ModelSpec& model, bool is_whole_model) {
  std::optional<int> inner;
  if (is_whole_model) inner = config.Integer({"intermediate_size", "d_inner"});
  const double expanded =
      static_cast<double>(config.Integer({"mamba_expand", "expand"}).value_or(2)) *
      model.hidden_size;
  return {.head_count = inner.value_or(static_cast<int>(std::min(expanded, 1e8))),
          .head_dim = 1,
          .group_count = 1,
          .state_size = config.Size({"mamba_d_state", "state_size"}),
          .convolution_size = config.Size({"mamba_d_conv", "conv_kernel"}),
          .dt_rank = config.Size({"mamba_dt_rank", "time_step_rank"})};
}

void ReadStateSpace(ConfigReader& config, ModelSpec& model) {
  const char* heads = config.Find({"mamba_num_heads", "mamba_n_heads"});
  const bool is_whole_model = config.Has("state_size") && config.Has("conv_kernel");
  if (config.Has("mamba_dt_rank") || (is_whole_model && !config.Has("num_heads"))) {
    model.state_space = ReadChannels(config, model, is_whole_model);
    return;
  }
  config.Ignore("time_step_rank");  // of Mamba-1
  if (heads == nullptr && !is_whole_model) return;
  StateSpaceSpec space = {
      .head_count = config.Size({"mamba_num_heads", "mamba_n_heads", "num_heads"}),
      .head_dim = config.Size({"mamba_head_dim", "mamba_d_head", "head_dim"}),
      .group_count = config.Size({"mamba_n_groups", "n_groups"}),
      .state_size = config.Size({"ssm_state_size", "mamba_d_state", "state_size"}),
      .convolution_size = config.Size({"mamba_d_conv", "conv_kernel"})};
  // Falcon-H1 states the inner width; the size of a head follows.
  if (const auto inner = config.Integer({"mamba_d_ssm"}); inner.has_value()) {
    if (space.head_count > 0 && *inner % space.head_count == 0) {
      space.head_dim = *inner / space.head_count;
    } else {
      config.Reject("mamba_d_ssm", fmt::format("must be a multiple of the {} heads of the state "
                                               "space",
                                               space.head_count));
    }
  }
  for (const char* key : {"mamba_expand", "expand"}) config.Ignore(key);  // the width is stated
  model.state_space = space;
}

// Returns the width of all shared experts together.
int SharedWidth(ConfigReader& config, const Family& family, int expert_size) {
  const auto whole = config.Integer({"shared_expert_intermediate_size", "share_expert_dim",
                                     "moe_shared_expert_intermediate_size"});
  const auto count = config.Integer(
      {"n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"});
  if (whole.has_value()) return *whole;
  if (family.expert_is_shared) return expert_size;
  // A dense feed-forward that runs beside the experts is a shared expert by another name.
  if (const auto beside = config.Integer({"shared_intermediate_size"}); beside.has_value()) {
    return *beside;
  }
  if (config.Flag({"enable_moe_block"}).value_or(false)) return config.Size({"intermediate_size"});
  const bool states_count = config.config().contains("n_shared_experts");
  const double width =
      static_cast<double>(count.value_or(states_count ? 0 : family.shared_expert_count)) *
      expert_size;
  if (width > 1e8) {
    config.Add("n_shared_experts",
               fmt::format("{}; times the expert's size must be <= 100000000", count.value_or(0)));
    return 0;
  }
  return static_cast<int>(width);
}

// Reads the groups that the router chooses first. A file in which they leave the choice free, or do
// not divide the experts, states nothing about where tokens go.
void ReadRouterGroups(ConfigReader& config, MoeSpec& moe) {
  const int groups = config.Integer({"n_group"}).value_or(0);
  const int chosen = config.Integer({"topk_group"}).value_or(0);
  if (groups <= 1 || chosen < 1 || chosen >= groups || moe.expert_count % groups != 0) return;
  moe.group_count = groups;
  moe.groups_per_token = chosen;
}

void ReadExperts(ConfigReader& config, const Family& family, ModelSpec& model) {
  const char* key = config.Find(kExpertCounts);
  const auto count = config.Integer(kExpertCounts);
  const auto& file = config.config();
  if (file.contains("ffn_config") && file["ffn_config"].is_object() &&
      file["ffn_config"].contains("moe_num_experts")) {  // DBRX
    config.Object("ffn_config", [&](ConfigReader& own) {
      model.moe = MoeSpec{.expert_count = own.Size({"moe_num_experts"}),
                          .experts_per_token = own.Size({"moe_top_k"}),
                          .expert_ffn_hidden_size = own.Size({"ffn_hidden_size"})};
    });
    return;
  }
  if (count.value_or(0) <= 1) return;
  if (!family.has_experts) {
    config.Reject(key,
                  "a model of this type has no experts; state the type that builds them, or "
                  "remove the key");
    return;
  }
  MoeSpec moe = {.expert_count = *count};
  moe.experts_per_token = config.Size({"num_experts_per_tok", "num_experts_per_token", "moe_topk",
                                       "moe_top_k", "moe_k", "top_k_experts", "experts_per_token"});
  moe.expert_ffn_hidden_size =
      config.Size({"moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size"});
  moe.shared_expert_ffn_hidden_size = SharedWidth(config, family, moe.expert_ffn_hidden_size);
  ReadRouterGroups(config, moe);
  config.Ignore("intermediate_size_mlp");  // read later if a layer is dense
  model.moe = moe;
}

// Sets the mixer that files call by this word. Returns false for a word that is not one.
bool SetByWord(std::string_view word, int window, LayerKind& layer) {
  layer.sliding_window = 0;
  if (word == "full_attention" || word == "attention") return true;
  if (word == "sliding_attention" || word == "chunked_attention") {
    layer.sliding_window = window;
    layer.is_chunked = word == "chunked_attention";
    return true;
  }
  if (word == "linear_attention") {
    layer.mixer = TokenMixer::kLinearAttention;
  } else if (word == "mamba" || word == "mamba2") {
    layer.mixer = TokenMixer::kStateSpace;
  } else {
    return false;
  }
  return true;
}

// Nemotron-H: M a state space, * attention, - a feed-forward, E experts, each a layer of its own.
void ReadHybridPattern(ConfigReader& config, Layers& layers) {
  const auto pattern = config.Text({"hybrid_override_pattern"});
  if (!pattern.has_value()) return;
  const std::vector<char> letters(pattern->begin(), pattern->end());
  ForEach(config, "hybrid_override_pattern", letters, layers, [&](char letter, LayerKind& layer) {
    layer.feed_forward = FeedForwardKind::kNone;
    layer.mixer = TokenMixer::kNone;
    switch (letter) {
      case 'M':
        layer.mixer = TokenMixer::kStateSpace;
        return;
      case '*':
        layer.mixer = TokenMixer::kAttention;
        return;
      case '-':
        layer.feed_forward = FeedForwardKind::kDense;
        return;
      case 'E':
        layer.feed_forward = FeedForwardKind::kExperts;
        return;
      default:
        config.Reject("hybrid_override_pattern", "must have only M, *, - and E");
    }
  });
}

// Returns the window that the file states, if it is switched on.
int ReadWindow(ConfigReader& config, const Family& family) {
  const bool states = config.config().contains("sliding_window");
  const bool chunks = config.Has("attention_chunk_size");
  const int window = config.Integer({"sliding_window", "attention_chunk_size"})
                         .value_or(states ? 0 : family.sliding_window);
  const bool is_on = config.Flag({"use_sliding_window"}).value_or(!family.needs_window_switch);
  return is_on || chunks ? window : 0;
}

// Gives windows to the layers that have them, if no list of kinds says which.
void SpreadWindow(ConfigReader& config, const Family& family, int window, Layers& layers) {
  const auto set = [&](LayerKind& layer) { layer.sliding_window = window; };
  const int pattern = config.Integer({"sliding_window_pattern", "_sliding_window_pattern"})
                          .value_or(family.window_pattern);
  if (config.Has("attention_chunk_size")) {
    const auto rotary = config.Integers("no_rope_layers");  // 1: rotary embedding, and chunks
    const bool lists = rotary.has_value() && rotary->size() == layers.size();
    Where(
        layers,
        [&](int i) {
          return lists ? (*rotary)[static_cast<std::size_t>(i)] != 0
                       : (i + 1) % kLlama4FullInterval != 0;
        },
        [&](LayerKind& layer) {
          set(layer);
          layer.is_chunked = true;
        });
    return;
  }
  if (pattern > 0) {
    Where(
        layers, [&](int i) { return (i + 1) % pattern != 0; }, set);
    return;
  }
  // The window starts at a layer (Qwen2 to Qwen3): 28 unless the file says so.
  const int first =
      config.Integer({"max_window_layers"}).value_or(family.needs_window_switch ? 28 : 0);
  Where(
      layers, [&](int i) { return !family.needs_window_switch || i >= first; }, set);
}

// Gives the layers without a window the sizes of their own that Gemma 4 states for them.
void ReadGlobalLayers(ConfigReader& config, int window, Layers& layers) {
  const int head_dim = config.Integer({"global_head_dim"}).value_or(0);
  const int kv_heads = config.Integer({"num_global_key_value_heads"}).value_or(0);
  const bool shares = config.Flag({"attention_k_eq_v"}).value_or(false);
  for (LayerKind& layer : layers) {
    if (window == 0 || layer.sliding_window > 0) continue;
    layer.head_dim = head_dim;
    layer.values_are_keys = shares;
    if (shares) layer.kv_head_count = kv_heads;
  }
}

// Reads the word that each layer has in `layer_types`. Returns false if the file has no such list.
bool ReadLayerTypes(ConfigReader& config, int window, Layers& layers) {
  const auto words = config.Texts("layer_types");
  if (!words.has_value()) return false;
  for (const char* key : {"sliding_window_pattern", "full_attention_interval", "no_rope_layers",
                          "no_rope_layer_interval"}) {
    config.Ignore(key);
  }
  ForEach(config, "layer_types", *words, layers, [&](const std::string& word, LayerKind& layer) {
    if (SetByWord(word, window, layer)) return;
    config.Add("layer_types", fmt::format("{}; must be full_attention, sliding_attention, "
                                          "chunked_attention, linear_attention, attention or mamba",
                                          word));
  });
  ReadGlobalLayers(config, window, layers);
  return true;
}

// MiMo's layers with a window have heads of their own.
void ReadHybridLayers(ConfigReader& config, int window, Layers& layers) {
  const auto kinds = config.Integers("hybrid_layer_pattern");
  if (!kinds.has_value()) return;
  const int heads = config.Integer({"swa_num_attention_heads"}).value_or(0);
  const int kv_heads = config.Integer({"swa_num_key_value_heads"}).value_or(0);
  const int head_dim = config.Integer({"swa_head_dim"}).value_or(0);
  const int v_head_dim = config.Integer({"swa_v_head_dim"}).value_or(0);
  const int full_v = config.Integer({"v_head_dim"}).value_or(0);
  ForEach(config, "hybrid_layer_pattern", *kinds, layers, [&](int kind, LayerKind& layer) {
    layer.sliding_window = kind == 1 ? window : 0;
    layer.v_head_dim = kind == 1 ? v_head_dim : full_v;
    if (kind != 1) return;
    layer.attention_head_count = heads;
    layer.kv_head_count = kv_heads;
    layer.head_dim = head_dim;
  });
}

void ReadMixers(ConfigReader& config, const Family& family, const ModelSpec& model,
                Layers& layers) {
  const int window = ReadWindow(config, family);
  config.Ignore("max_window_layers");
  if (ReadLayerTypes(config, window, layers)) return;
  if (window > 0) SpreadWindow(config, family, window, layers);
  ReadHybridLayers(config, window, layers);
  ReadLinearLayers(config, model, layers);
  if (const auto period = config.Integer({"attn_layer_period"}).value_or(0); period > 0) {
    const int offset = config.Integer({"attn_layer_offset"}).value_or(0);
    Where(
        layers, [&](int i) { return i % period != offset; },
        [](LayerKind& layer) { layer.mixer = TokenMixer::kStateSpace; });
  }
  ReadHybridPattern(config, layers);
}

// Parses "4,5,6".
std::vector<int> NumbersIn(std::string_view text) {
  std::vector<int> numbers;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    int number = -1;
    const std::size_t begin = std::min(text.find_first_not_of(' '), end);
    std::from_chars(text.data() + begin, text.data() + end, number);
    numbers.push_back(number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return numbers;
}

// Reads the word that each layer has for its feed-forward. Returns false if the file has no list.
bool ReadFeedForwardTypes(ConfigReader& config, std::vector<bool>& is_routed) {
  constexpr const char* kKey = "mlp_layer_types";
  const auto words = config.Texts(kKey);
  if (!words.has_value()) return false;
  for (const char* key : {"first_k_dense_replace", "num_dense_layers", "moe_layer_freq",
                          "decoder_sparse_step", "mlp_only_layers"}) {
    config.Ignore(key);  // what an older file says
  }
  if (words->size() != is_routed.size()) {
    config.Reject(kKey,
                  fmt::format("must have an entry for each of the {} layers", is_routed.size()));
    return true;
  }
  for (std::size_t i = 0; i < words->size(); ++i) {
    const std::string& word = (*words)[i];
    is_routed[i] = word == "sparse";
    if (word == "sparse" || word == "dense") continue;
    config.Add(kKey, fmt::format("{}; must be dense or sparse", word));
    return true;
  }
  return true;
}

// Sets which layers have experts. `is_routed` starts as true for every layer.
void ReadRouting(ConfigReader& config, const Family& family, std::vector<bool>& is_routed) {
  if (ReadFeedForwardTypes(config, is_routed)) return;
  const int count = static_cast<int>(is_routed.size());
  const auto keep = [&](const auto& has_experts) {
    for (int i = 0; i < count; ++i) {
      if (!has_experts(i)) is_routed[static_cast<std::size_t>(i)] = false;
    }
  };
  const int first = config.Integer({"first_k_dense_replace", "num_dense_layers"})
                        .value_or(family.first_dense_layer_count);
  if (first > count) {
    config.Reject("first_k_dense_replace", fmt::format("must be <= the {} layers", count));
  }
  keep([&](int i) { return i >= first; });
  if (config.Has("moe_layer_freq") && config.config()["moe_layer_freq"].is_array()) {
    const auto flags = config.Integers("moe_layer_freq").value_or(std::vector<int>());
    if (static_cast<int>(flags.size()) != count) {
      config.Reject("moe_layer_freq",
                    fmt::format("must have an entry for each of the {} layers", count));
      return;
    }
    keep([&](int i) { return flags[static_cast<std::size_t>(i)] != 0; });
  } else if (const int every = config.Integer({"moe_layer_freq"}).value_or(1); every > 1) {
    keep([&](int i) { return i % every == 0; });
  }
  const int step = config.Integer({"decoder_sparse_step", "interleave_moe_layer_step"}).value_or(1);
  if (step > 1) keep([&](int i) { return (i + 1) % step == 0; });
  const auto dense = config.Integers("mlp_only_layers").value_or(std::vector<int>());
  keep([&](int i) { return std::ranges::find(dense, i) == dense.end(); });
  if (const int period = config.Integer({"expert_layer_period"}).value_or(0); period > 0) {
    const int offset = config.Integer({"expert_layer_offset"}).value_or(0);
    keep([&](int i) { return i % period == offset; });
  }
  const int start = config.Integer({"moe_layer_start_index"}).value_or(0);
  const auto& last = config.config().value("moe_layer_end_index", nlohmann::json(-1));
  const bool has_last = last != -1;  // -1 is the last layer
  if (!has_last) config.Ignore("moe_layer_end_index");
  const int end =
      has_last ? config.Integer({"moe_layer_end_index"}).value_or(count - 1) : count - 1;
  const int interval = std::max(1, config.Integer({"moe_layer_interval"}).value_or(1));
  keep([&](int i) { return i >= start && i <= end && (i + 1) % interval == 0; });
  if (const auto listed = config.Text({"moe_layers_enum"}); listed.has_value()) {
    const std::vector<int> on = NumbersIn(*listed);
    keep([&](int i) { return std::ranges::find(on, i) != on.end(); });
  }
}

void ReadFeedForwards(ConfigReader& config, const Family& family, const ModelSpec& model,
                      Layers& layers) {
  if (config.Has("hybrid_override_pattern")) return;  // it says so
  if (model.moe.has_value()) {
    std::vector<bool> is_routed(layers.size(), true);
    ReadRouting(config, family, is_routed);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (is_routed[i]) layers[i].feed_forward = FeedForwardKind::kExperts;
    }
  } else {
    // A dense model states these all the same.
    for (const char* key :
         {"decoder_sparse_step", "mlp_only_layers", "mlp_layer_types", "expert_layer_period",
          "expert_layer_offset", "moe_layer_freq", "first_k_dense_replace"}) {
      config.Ignore(key);
    }
  }
}

// Layers may differ in their heads of queries.
void ReadHeadCounts(ConfigReader& config, const ModelSpec& model, Layers& layers) {
  constexpr const char* kKey = "num_attention_heads_per_layer";
  const auto counts = config.Integers(kKey);
  if (!counts.has_value()) return;
  ForEach(config, kKey, *counts, layers, [&](int count, LayerKind& layer) {
    layer.attention_head_count = count == model.attention_head_count ? 0 : count;
  });
}

}  // namespace

void ReadLayers(ConfigReader& config, const Family& family, ModelSpec& model) {
  ReadLatentAttention(config, family, model);
  ReadLinearAttention(config, model);
  ReadStateSpace(config, model);
  ReadExperts(config, family, model);
  if (model.layer_count < 1) return;  // rejected already
  Layers layers(static_cast<std::size_t>(std::min(model.layer_count, kMaxLayers)));
  const bool attends = model.attention_head_count > 0;
  if (model.state_space.has_value() && !attends) {
    for (LayerKind& layer : layers) {
      layer = {.mixer = TokenMixer::kStateSpace, .feed_forward = FeedForwardKind::kNone};
    }
    // A layer's heads are those of its state space, which tensor parallelism divides.
    model.attention_head_count = model.kv_head_count = model.state_space->head_count;
    model.head_dim = model.state_space->head_dim;
  } else if (family.mixes_both) {
    for (LayerKind& layer : layers) layer.mixer = TokenMixer::kAttentionAndStateSpace;
  } else {
    ReadMixers(config, family, model, layers);
    ReadHeadCounts(config, model, layers);
  }
  ReadFeedForwards(config, family, model, layers);
  ReadShortcutLayers(config, layers, model);
  SetLayers(layers, model);
}

}  // namespace meshwright
