#include "server/tuner/export/text/config_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>

#include "search_space/base/lower_case.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

// Lists in one line are written alike in YAML and TOML.
std::string ListText(const Json& list, std::string (*scalar)(const Json&)) {
  std::string text;
  for (const Json& item : list) {
    if (!text.empty()) text += ", ";
    text += item.is_array() ? ListText(item, scalar) : scalar(item);
  }
  return "[" + text + "]";
}

// YAML 1.1 reads some plain words as booleans and others as numbers.
bool IsPlainYaml(std::string_view text) {
  constexpr std::array<std::string_view, 10> kWords = {"true", "false", "yes", "no", "on",
                                                       "off",  "null",  "y",   "n",  "none"};
  const std::string lower = LowerCase(text);
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto is_plain = [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' ||
           c == '/';
  };
  return !text.empty() && std::ranges::find(kWords, lower) == kWords.end() &&
         is_letter(text.front()) && std::ranges::all_of(text, is_plain);
}

std::string YamlScalar(const Json& value) {
  if (value.is_string() && IsPlainYaml(value.get_ref<const std::string&>())) {
    return value.get<std::string>();
  }
  return value.dump();
}

std::string TomlScalar(const Json& value) { return value.dump(); }

void AddYaml(const Json& object, int depth, std::string& text) {
  for (const auto& [key, value] : object.items()) {
    text += fmt::format("{:{}}{}:", "", 2 * depth, key);
    if (value.is_object()) {
      text += "\n";
      AddYaml(value, depth + 1, text);
    } else {
      text += " " + (value.is_array() ? ListText(value, YamlScalar) : YamlScalar(value)) + "\n";
    }
  }
}

void AddToml(const Json& object, const std::string& path, std::string& text) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) continue;
    text += fmt::format("{} = {}\n", key,
                        value.is_array() ? ListText(value, TomlScalar) : TomlScalar(value));
  }
  for (const auto& [key, value] : object.items()) {
    if (!value.is_object()) continue;
    const std::string table = path.empty() ? key : fmt::format("{}.{}", path, key);
    const bool has_values =
        std::ranges::any_of(value, [](const Json& inner) { return !inner.is_object(); });
    if (has_values) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", table);
    AddToml(value, table, text);
  }
}

}  // namespace

std::string JsonText(const Json& config) { return config.dump(2) + "\n"; }

std::string YamlText(const Json& config) {
  std::string text;
  AddYaml(config, 0, text);
  return text;
}

std::string TomlText(const Json& config) {
  std::string text;
  AddToml(config, "", text);
  return text;
}

}  // namespace meshwright
