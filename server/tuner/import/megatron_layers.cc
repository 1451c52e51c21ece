#include "server/tuner/import/megatron_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <system_error>

#include "search_space/import/layer_runs.h"
#include "search_space/spec/choices.h"
#include "server/tuner/question/framework_choice.h"

namespace meshwright {
namespace {

// Far above every model's; a longer list is not made.
constexpr std::size_t kMaxLayers = 10'000;
constexpr int kMaxDepth = 16;

// Reads sums of lists and of their multiples. A method returns false for what is none.
class ListReader {
 public:
  explicit ListReader(std::string_view text) : text_(text) {}

  bool ReadAll(std::vector<int>& out) { return ReadSum(0, out) && text_.empty(); }

 private:
  [[nodiscard]] bool Take(char letter) {
    if (text_.empty() || text_.front() != letter) return false;
    text_.remove_prefix(1);
    return true;
  }

  bool ReadNumber(int& out) {
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), out);
    if (error != std::errc()) return false;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return true;
  }

  bool ReadItems(std::vector<int>& out) {
    if (Take(']')) return true;
    do {
      int item = 0;
      if (out.size() >= kMaxLayers || !ReadNumber(item)) return false;
      out.push_back(item);
    } while (Take(','));
    return Take(']');
  }

  bool ReadTerm(int depth, std::vector<int>& out) {
    std::vector<int> part;
    int times = 1;
    if (Take('[')) {
      if (!ReadItems(part)) return false;
    } else if (depth == kMaxDepth || !Take('(') || !ReadSum(depth + 1, part) || !Take(')')) {
      return false;
    }
    while (Take('*')) {
      int factor = 0;
      if (!ReadNumber(factor) || factor < 0) return false;
      if (factor > 0 && times > static_cast<int>(kMaxLayers) / factor) return false;
      times *= factor;
    }
    if (out.size() + part.size() * static_cast<std::size_t>(times) > kMaxLayers) return false;
    for (int i = 0; i < times; ++i) out.insert(out.end(), part.begin(), part.end());
    return true;
  }

  bool ReadSum(int depth, std::vector<int>& out) {
    do {
      if (!ReadTerm(depth, out)) return false;
    } while (Take('+'));
    return true;
  }

  std::string_view text_;
};

std::optional<int> WholeNumber(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole ? std::optional(number) : std::nullopt;
}

// A setting that says of each layer if it has something: one layer in so many, or a list.
struct LayerPattern {
  std::optional<int> every = {};
  std::vector<bool> has = {};  // of each layer
};

// Reads a list of 0 and 1 with an entry for each layer, idle ones too.
void ReadList(SettingReader& settings, std::string_view key, const std::string& text,
              const ModelSpec& model, LayerPattern& pattern) {
  std::vector<int> idle = settings.Ints("noop-layers");
  const auto list = NumbersOf(text);
  if (!list.has_value() || std::ranges::any_of(*list, [](int i) { return i != 0 && i != 1; })) {
    settings.Refuse(key, text + "; must be a whole number or a list such as ([0]*3+[1]*58)");
    return;
  }
  const auto layers = static_cast<std::size_t>(model.layer_count);
  const bool lists_idle = list->size() == layers + idle.size();
  if (list->size() != layers && !lists_idle) {
    settings.Refuse(key, fmt::format("{}; has {} entries, must have one for each of the {} layers",
                                     text, list->size(), layers));
    return;
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    const bool is_idle = lists_idle && std::ranges::count(idle, static_cast<int>(i)) > 0;
    if (!is_idle) pattern.has.push_back((*list)[i] == 1);
  }
}

LayerPattern ReadPattern(SettingReader& settings, std::string_view key, const ModelSpec& model) {
  LayerPattern pattern;
  std::string text = settings.Text(key).value_or("");
  std::erase_if(text, [](char c) { return c == ' ' || c == '\'' || c == '"'; });
  if (text.empty()) {
    // The shell ends the flag at a parenthesis without quotes.
    if (settings.IsSet(key)) settings.Refuse(key, "has no value; a list must stand in quotes");
    return pattern;
  }
  const auto every = WholeNumber(text);
  if (!every.has_value()) {
    ReadList(settings, key, text, model, pattern);
  } else if (*every < 1) {
    settings.Refuse(key, text + "; must be a whole number from 1 on");
  } else {
    pattern.every = every;
  }
  return pattern;
}

// The first layer of so many has experts (get_gpt_decoder_block_spec of gpt_layer_specs.py), unless
// it is one of the leading dense ones, which programs beside Megatron-Core have.
void SetExperts(SettingReader& settings, const ModelSpec& model, Layers& layers) {
  const int dense = settings.Int("first-k-dense-replace").value_or(0);
  const LayerPattern pattern = ReadPattern(settings, "moe-layer-freq", model);
  if (!model.moe.has_value()) return;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool is_chosen =
        pattern.has.empty() ? static_cast<int>(i) % pattern.every.value_or(1) == 0 : pattern.has[i];
    const bool has_experts = is_chosen && static_cast<int>(i) >= dense;
    layers[i].feed_forward = has_experts ? FeedForwardKind::kExperts : FeedForwardKind::kDense;
  }
}

// Returns the tokens that a token attends to, itself too; 0: all before it.
int ReadWindow(SettingReader& settings) {
  std::vector<int> sides;
  for (std::string side : settings.List("window-size")) {
    std::erase_if(side, [](char c) { return c == '(' || c == ')' || c == ' '; });
    const auto number = WholeNumber(side);
    if (!number.has_value()) {
      if (side != "None" && side != "none") {
        settings.Refuse("window-size", side + "; must be tokens to the left and the right: 1023,0");
      }
      return 0;
    }
    sides.push_back(*number);
  }
  return sides.empty() || sides.front() < 0 ? 0 : sides.front() + 1;
}

// The last layer of so many has full attention; in a list it is 0
// (is_layer_window_attention of megatron/core/transformer/utils.py).
void SetWindows(SettingReader& settings, ImportedJob& job, const ModelSpec& model, Layers& layers) {
  constexpr std::string_view kKey = "window-attn-skip-freq";
  const int window = ReadWindow(settings);
  const LayerPattern pattern = ReadPattern(settings, kKey, model);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool is_last =
        pattern.every.has_value() && (static_cast<int>(i) + 1) % *pattern.every == 0;
    const bool has_window = pattern.has.empty() ? !is_last : pattern.has[i];
    layers[i].sliding_window = has_window ? window : 0;
  }
  if (!settings.IsSet(kKey)) return;
  if (window == 0) {
    settings.Note(fmt::format("{} without window-size has no effect", kKey));
  } else if (job.workload.framework_name == "megatron-core") {
    job.workload.framework_version = kLaterMegatron;
    settings.Note(fmt::format("{}: read as a job of version {}, the first that has it", kKey,
                              kLaterMegatron));
  }
}

}  // namespace

std::optional<std::vector<int>> NumbersOf(std::string_view list) {
  std::vector<int> numbers;
  return ListReader(list).ReadAll(numbers) ? std::optional(std::move(numbers)) : std::nullopt;
}

void ReadMegatronLayers(SettingReader& settings, ImportedJob& job, ModelSpec& model) {
  const bool is_usual =
      model.layer_count > 0 && static_cast<std::size_t>(model.layer_count) <= kMaxLayers;
  Layers layers(is_usual ? static_cast<std::size_t>(model.layer_count) : 1);
  SetExperts(settings, model, layers);
  SetWindows(settings, job, model, layers);
  const bool has_dense = std::ranges::any_of(
      layers, [](const LayerKind& layer) { return layer.feed_forward == FeedForwardKind::kDense; });
  if (!has_dense) model.ffn_hidden_size = 0;
  SetLayers(layers, model);
}

}  // namespace meshwright
