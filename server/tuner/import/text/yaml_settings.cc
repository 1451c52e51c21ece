#include <fmt/format.h>
#include <yaml.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "search_space/base/status.h"
#include "server/tuner/import/text/config_settings.h"
#include "server/tuner/import/text/yaml_document.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxYamlDepth = 64;
constexpr std::size_t kMaxSettings = 100000;  // aliases can repeat a mapping without end

bool IsPlain(const yaml_node_t& node) { return node.data.scalar.style == YAML_PLAIN_SCALAR_STYLE; }

class YamlReader {
 public:
  YamlReader(YamlDocuments& yaml, std::string_view file) : yaml_(yaml), file_(file) {}

  // Returns false if the document is no mapping, is nested too deeply or is too large.
  bool Read(std::vector<Setting>& settings) {
    const yaml_node_t* root = yaml_.Root();
    if (root == nullptr) return true;  // an empty file
    return root->type == YAML_MAPPING_NODE && Flatten(*root, "", 0, settings) && !is_cut_;
  }

 private:
  bool Flatten(const yaml_node_t& mapping, const std::string& prefix, int depth,
               std::vector<Setting>& settings) {
    if (depth > kMaxYamlDepth || ++visit_count_ > kMaxSettings) return false;
    for (auto* pair = mapping.data.mapping.pairs.start; pair != mapping.data.mapping.pairs.top;
         ++pair) {
      const yaml_node_t& key = yaml_.Node(pair->key);
      const yaml_node_t& value = yaml_.Node(pair->value);
      if (key.type != YAML_SCALAR_NODE) return false;
      const std::string name(ScalarText(key));
      const std::string path = prefix.empty() ? name : fmt::format("{}.{}", prefix, name);
      if (value.type == YAML_MAPPING_NODE) {
        if (!Flatten(value, path, depth + 1, settings)) return false;
        continue;
      }
      const bool is_text = value.type == YAML_SCALAR_NODE;
      std::string text =
          is_text ? std::string(ScalarText(value)) : ListJson(value, depth + 1).dump();
      if (is_text && text.empty() && IsPlain(value)) text = "null";
      settings.push_back({.key = path,
                          .value = std::move(text),
                          .place = fmt::format("{} line {}", file_, key.start_mark.line + 1)});
    }
    return true;
  }

  Json ListJson(const yaml_node_t& node, int depth) {
    // Aliases let a short file stand for a long list.
    if (depth > kMaxYamlDepth || ++visit_count_ > kMaxSettings) {
      is_cut_ = true;
      return nullptr;
    }
    if (node.type == YAML_SCALAR_NODE) {
      const std::string text(ScalarText(node));
      const Json number = Json::parse(text, nullptr, false);
      return IsPlain(node) && (number.is_number() || number.is_boolean()) ? number : Json(text);
    }
    if (node.type == YAML_MAPPING_NODE) {
      Json object = Json::object();
      for (auto* pair = node.data.mapping.pairs.start; pair != node.data.mapping.pairs.top;
           ++pair) {
        const yaml_node_t& key = yaml_.Node(pair->key);
        if (key.type == YAML_SCALAR_NODE) {
          object[std::string(ScalarText(key))] = ListJson(yaml_.Node(pair->value), depth + 1);
        }
      }
      return object;
    }
    Json list = Json::array();
    for (auto* item = node.data.sequence.items.start; item != node.data.sequence.items.top;
         ++item) {
      list.push_back(ListJson(yaml_.Node(*item), depth + 1));
    }
    return list;
  }

  YamlDocuments& yaml_;
  std::string_view file_;
  std::size_t visit_count_ = 0;  // mappings and parts of lists that were read
  bool is_cut_ = false;          // a list was too deep or too long
};

// Puts values in place of "${a.b}". A value that refers to itself stays unresolved.
void Interpolate(std::vector<Setting>& settings) {
  constexpr int kRounds = 8;  // references that refer to references
  for (int round = 0; round < kRounds; ++round) {
    for (Setting& setting : settings) {
      const std::size_t begin = setting.value.find("${");
      const std::size_t end = setting.value.find('}', begin);
      if (begin == std::string::npos || end == std::string::npos) continue;
      const std::string name = setting.value.substr(begin + 2, end - begin - 2);
      const auto found = std::ranges::find(settings, name, &Setting::key);
      if (found == settings.end() || &*found == &setting) {
        setting.unresolved = "${" + name + "}";
        continue;
      }
      setting.value.replace(begin, end - begin + 1, found->value);
    }
  }
  for (Setting& setting : settings) {
    if (setting.value.find("${") != std::string::npos && setting.unresolved.empty()) {
      setting.unresolved = setting.value;
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<Setting>> YamlSettings(std::string_view text, std::string_view file) {
  YamlDocuments yaml(text);
  if (const auto problem = yaml.Load(); problem.has_value()) {
    return InvalidFields(
        {{.field = fmt::format("{} line {}", file, problem->line), .description = problem->text}});
  }
  std::vector<Setting> settings;
  if (!YamlReader(yaml, file).Read(settings)) {
    return InvalidFields(
        {{.field = std::string(file),
          .description = fmt::format("must be a mapping of named keys, at most {} deep and of at "
                                     "most {} values, with those that aliases repeat",
                                     kMaxYamlDepth, kMaxSettings)}});
  }
  Interpolate(settings);
  return settings;
}

}  // namespace meshwright
