#include "server/tuner/import/text/yaml_json.h"

#include <fmt/format.h>
#include <yaml.h>

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>

#include "search_space/base/status.h"
#include "server/tuner/import/text/yaml_document.h"

namespace meshwright {
namespace {

constexpr int kMaxYamlLevels = 64;
constexpr std::size_t kMaxYamlValues = 100'000;
constexpr std::size_t kMaxYamlBytes = 16U << 20U;

std::string Quoted(std::string_view text) {
  using Json = nlohmann::json;
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status Mistake(const yaml_node_t& node, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("line {}: {}", node.start_mark.line + 1, what));
}

absl::Status Load(YamlDocuments& yaml) {
  const auto problem = yaml.Load();
  if (!problem.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("line {}, column {}: {}", problem->line, problem->column, problem->text));
}

// Returns the number without the underscores between its digits, or an empty text if it is none.
std::string NumberText(std::string_view text) {
  const auto is_digit = [&](std::size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_group = text[i] == '_' && i > 0 && is_digit(i - 1) && is_digit(i + 1);
    if (!is_group) plain += text[i];
  }
  const auto value = nlohmann::json::parse(plain, nullptr, false);
  return value.is_number() ? plain : "";
}

std::string ScalarJson(const yaml_node_t& node) {
  const std::string_view text = ScalarText(node);
  if (node.data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return Quoted(text);
  for (const std::string_view word : {"", "~", "null", "Null", "NULL"}) {
    if (text == word) return "null";
  }
  for (const std::string_view word : {"true", "True", "TRUE"}) {
    if (text == word) return "true";
  }
  for (const std::string_view word : {"false", "False", "FALSE"}) {
    if (text == word) return "false";
  }
  std::string number = NumberText(text);
  return number.empty() ? Quoted(text) : number;
}

class JsonWriter {
 public:
  explicit JsonWriter(YamlDocuments& yaml) : yaml_(yaml) {}

  absl::Status Write(const yaml_node_t& node, int depth) {
    if (depth > kMaxYamlLevels) {
      return Mistake(node, fmt::format("nested deeper than {} levels", kMaxYamlLevels));
    }
    if (++value_count_ > kMaxYamlValues || json_.size() > kMaxYamlBytes) {
      return Mistake(node, fmt::format("aliases repeat more than {} values or {} bytes",
                                       kMaxYamlValues, kMaxYamlBytes));
    }
    RETURN_IF_ERROR(CheckTag(node));
    if (node.type == YAML_SCALAR_NODE) {
      json_ += ScalarJson(node);
      return absl::OkStatus();
    }
    return node.type == YAML_MAPPING_NODE ? WriteMapping(node, depth) : WriteSequence(node, depth);
  }

  std::string json() && { return std::move(json_); }

 private:
  static absl::Status CheckTag(const yaml_node_t& node) {
    const std::string_view tag = reinterpret_cast<const char*>(node.tag);
    constexpr std::string_view kOfYaml = "tag:yaml.org,2002:";
    constexpr std::array<std::string_view, 7> kKnown = {"str",   "seq",  "map", "int",
                                                        "float", "bool", "null"};
    for (const std::string_view known : kKnown) {
      if (tag.starts_with(kOfYaml) && tag.substr(kOfYaml.size()) == known) {
        return absl::OkStatus();
      }
    }
    return Mistake(node, fmt::format("tag {}; must be absent", tag));
  }

  absl::Status WriteMapping(const yaml_node_t& node, int depth) {
    std::set<std::string_view> seen;
    json_ += '{';
    for (auto* pair = node.data.mapping.pairs.start; pair != node.data.mapping.pairs.top; ++pair) {
      const yaml_node_t& key = yaml_.Node(pair->key);
      if (key.type != YAML_SCALAR_NODE) return Mistake(key, "a key must be a word");
      if (!seen.insert(ScalarText(key)).second) {
        return Mistake(
            key, fmt::format("{} is given twice; must be given once", Quoted(ScalarText(key))));
      }
      if (seen.size() > 1) json_ += ", ";
      json_ += Quoted(ScalarText(key)) + ": ";
      RETURN_IF_ERROR(Write(yaml_.Node(pair->value), depth + 1));
    }
    json_ += '}';
    return absl::OkStatus();
  }

  absl::Status WriteSequence(const yaml_node_t& node, int depth) {
    json_ += '[';
    for (auto* item = node.data.sequence.items.start; item != node.data.sequence.items.top;
         ++item) {
      if (item != node.data.sequence.items.start) json_ += ", ";
      RETURN_IF_ERROR(Write(yaml_.Node(*item), depth + 1));
    }
    json_ += ']';
    return absl::OkStatus();
  }

  YamlDocuments& yaml_;
  std::string json_;
  std::size_t value_count_ = 0;
};

}  // namespace

absl::StatusOr<std::string> YamlAsJson(std::string_view text) {
  if (text.size() > kMaxYamlBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} bytes; must be at most {}", text.size(), kMaxYamlBytes));
  }
  YamlDocuments yaml(text);
  RETURN_IF_ERROR(Load(yaml));
  if (yaml.Root() == nullptr) return "{}";
  JsonWriter writer(yaml);
  RETURN_IF_ERROR(writer.Write(*yaml.Root(), 1));
  RETURN_IF_ERROR(Load(yaml));
  if (yaml.Root() != nullptr) {
    return Mistake(*yaml.Root(), "a second document; must be one");
  }
  return std::move(writer).json();
}

}  // namespace meshwright
