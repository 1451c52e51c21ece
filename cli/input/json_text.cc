#include "cli/input/json_text.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>
#include <variant>

#include "proto/json/json_tree.h"
#include "search_space/base/status.h"
#include "server/tuner/import/job_source.h"
#include "server/tuner/import/text/yaml_json.h"

namespace meshwright {
namespace {

// Returns the position behind a comment that begins at `at`; `at` itself if none does, or if it has
// no end.
std::size_t BehindComment(std::string_view text, std::size_t at) {
  const std::string_view start = text.substr(at, 2);
  if (start == "//") return std::min(text.find('\n', at), text.size());
  if (start != "/*") return at;
  const std::size_t end = text.find("*/", at + 2);
  return end == std::string_view::npos ? at : end + 2;
}

// Replaces comments outside strings by blanks, so that places in errors stay those of the file.
void BlankComments(std::string& text) {
  bool is_in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (is_in_string && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      is_in_string = !is_in_string;
    } else if (!is_in_string && text[at] == '/') {
      const std::size_t end = BehindComment(text, at);
      if (end == at) continue;
      for (; at + 1 < end; ++at) {
        if (text[at] != '\n' && text[at] != '\r') text[at] = ' ';
      }
      text[at] = ' ';  // the last byte of a comment is no line break
    }
  }
}

bool IsYamlName(std::string_view path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

// Returns the first line that is neither blank nor a comment of YAML.
std::string_view FirstLine(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) {
      line.remove_suffix(1);
    }
    if (!line.empty() && line.front() != '#') return line;
  }
  return {};
}

// Returns true if the text begins as a mapping of YAML does: "key:" or "key: value", or "---".
bool BeginsAsYaml(std::string_view text) {
  const std::string_view line = FirstLine(text);
  if (line == "---") return true;
  std::size_t at = 0;
  while (at < line.size() && (std::isalnum(static_cast<unsigned char>(line[at])) != 0 ||
                              line[at] == '_' || line[at] == '-')) {
    ++at;
  }
  const std::string_view rest = line.substr(at);
  return at > 0 && (rest == ":" || rest.starts_with(": "));
}

bool IsYaml(std::string_view text, std::string_view path) {
  return IsYamlName(path) || (!path.ends_with(".json") && BeginsAsYaml(text));
}

}  // namespace

absl::StatusOr<std::string> AsJson(std::string text, std::string_view path) {
  if (!IsYaml(text, path)) {
    BlankComments(text);
    return text;
  }
  auto json = YamlAsJson(text);
  if (json.ok()) return json;
  return absl::InvalidArgumentError(
      fmt::format("not YAML; {}", std::string(json.status().message())));
}

std::optional<std::string> OwnJson(const std::string& text, std::string_view path,
                                   const google::protobuf::Descriptor& type) {
  auto json = AsJson(text, path);
  if (!json.ok()) return std::nullopt;
  const auto tree = ReadJsonTree(*json);
  const auto* const keys = tree.ok() ? std::get_if<JsonObject>(&tree->value) : nullptr;
  if (keys == nullptr || HasKeyOfFramework(*json)) return std::nullopt;
  const bool has_ours = keys->empty() || std::ranges::any_of(*keys, [&type](const auto& entry) {
                          return type.FindFieldByName(entry.first) != nullptr;
                        });
  return has_ours || !IsYaml(text, path) ? std::optional(*std::move(json)) : std::nullopt;
}

}  // namespace meshwright
