#include "search_space/base/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 64;  // each level uses stack

class Checker {
 public:
  explicit Checker(TextLayout layout) : layout_(layout) {}

  void Check(const Json& value, const std::string& path, int depth) {
    if (depth > kMaxDepth) {
      Add(path, fmt::format("nested deeper than {} levels", kMaxDepth));
    } else if (value.is_string()) {
      CheckText(value.get_ref<const std::string&>(), path, layout_);
    } else if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        Check(value[i], fmt::format("{}[{}]", path, i), depth + 1);
      }
    } else if (value.is_object()) {
      for (const auto& [key, member] : value.items()) {
        const std::string name = CleanText(key, {});
        const std::string at = path.empty() ? name : fmt::format("{}.{}", path, name);
        CheckText(key, at, TextLayout::kOneLine);
        Check(member, at, depth + 1);
      }
    }
  }

  std::vector<FieldViolation> violations() && { return std::move(violations_); }

 private:
  void CheckText(const std::string& text, const std::string& path, TextLayout layout) {
    if (auto mistake = TextMistake(text, layout)) Add(path, *std::move(mistake));
  }
  void Add(const std::string& path, std::string description) {
    violations_.push_back({.field = path, .description = std::move(description)});
  }

  TextLayout layout_;
  std::vector<FieldViolation> violations_;
};

}  // namespace

std::vector<FieldViolation> JsonTextMistakes(const Json& value, const std::string& path,
                                             TextLayout layout) {
  Checker checker(layout);
  checker.Check(value, path, 0);
  return std::move(checker).violations();
}

}  // namespace meshwright
