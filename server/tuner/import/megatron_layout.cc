#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/tuner/import/readers.h"

namespace meshwright {
namespace {

constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxLength = 100000;

// Reads "E|(t|)*3,m|L": letters, "*n" behind a letter or a group, and commas without a meaning
// (PipelineParallelLayerLayout.parse_str_to_list in Megatron-Core).
class Layout {
 public:
  explicit Layout(std::string_view text) : text_(text) {}

  // Returns the letters with all repetitions written out; nullopt if the text is no layout.
  std::optional<std::string> Letters() {
    auto letters = Group(0);
    return at_ == text_.size() ? letters : std::nullopt;
  }

 private:
  std::optional<std::string> Group(int depth) {
    std::string letters;
    while (at_ < text_.size() && text_[at_] != ')') {
      const char c = text_[at_++];
      std::string unit(1, c);
      if (c == ',' || c == ' ') continue;
      if (c == '(') {
        if (depth > kMaxDepth) return std::nullopt;
        const auto inner = Group(depth + 1);
        if (!inner.has_value() || at_ == text_.size()) return std::nullopt;
        ++at_;
        unit = *inner;
      } else if (std::string_view("EtmL|").find(c) == std::string_view::npos) {
        return std::nullopt;
      }
      int times = 1;
      if (at_ < text_.size() && text_[at_] == '*') {
        const char* const begin = text_.data() + at_ + 1;
        const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), times);
        if (error != std::errc() || times < 0) return std::nullopt;
        at_ = static_cast<std::size_t>(end - text_.data());
      }
      if (unit.empty()) continue;
      for (int i = 0; i < times && letters.size() < kMaxLength; ++i) letters += unit;
    }
    return letters;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<int>> LayoutLayers(std::string_view layout) {
  const auto letters = Layout(layout).Letters();
  if (!letters.has_value()) return std::nullopt;
  std::vector<int> layers = {0};
  for (const char letter : *letters) {
    if (letter == '|') layers.push_back(0);
    if (letter == 't') ++layers.back();
  }
  return layers;
}

}  // namespace meshwright
