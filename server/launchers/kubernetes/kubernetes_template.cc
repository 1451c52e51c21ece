#include "server/launchers/kubernetes/kubernetes_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "search_space/base/clean_text.h"
#include "search_space/base/embedded_file.h"
#include "search_space/base/file_text.h"
#include "search_space/base/json_text.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "server/launchers/kubernetes/kubernetes_templates.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;
using Violations = std::vector<FieldViolation>;

constexpr std::string_view kPlaceholders[] = {"affinity",    "attempt_id",
                                              "command",     "deadline_seconds",
                                              "environment", "environment_words",
                                              "image",       "labels",
                                              "name_space",  "nodes",
                                              "other_nodes", "processes_per_node",
                                              "queue",       "resources",
                                              "suspend",     "volume_mounts",
                                              "volumes"};
// Placeholders without which a job would not be found again, or would not do its work.
constexpr std::string_view kNeeded[] = {"attempt_id", "command"};

constexpr std::string_view kFields[] = {"about",          "plural",        "object",
                                        "shared_objects", "gang",          "pod_label",
                                        "status",         "rank_variable", "master_address"};
constexpr std::string_view kKindFields[] = {"plural", "object"};
constexpr std::string_view kRowFields[] = {"condition", "reason", "path", "value", "state", "end"};

// A state that a row may give a job; "failed" may also name the end.
struct StatusWord {
  std::string_view word;
  JobState state;
  std::optional<JobEnd> end = {};
};
constexpr StatusWord kStatusWords[] = {
    {"pending", JobState::kPending},
    {"running", JobState::kRunning},
    {"succeeded", JobState::kEnded, JobEnd{.kind = JobEndKind::kExited, .exit_code = 0}},
    {"failed", JobState::kEnded, JobEnd{.kind = JobEndKind::kExited}},
};
constexpr std::string_view kAllStatusWords = "pending, running, succeeded, failed";

std::string Joined(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", word);
  }
  return text;
}

void CheckFields(const Json& object, const std::string& path,
                 std::span<const std::string_view> known, Violations& violations) {
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(known, name) == known.end()) {
      violations.push_back({path + name, fmt::format("{}; no such field, must be one of {}",
                                                     value.dump(), Joined(known))});
    }
  }
}

// Returns the text at `name`, or an empty one and a violation if there is none.
std::string Text(const Json& object, const std::string& path, const char* name,
                 Violations& violations) {
  const auto found = object.find(name);
  if (found != object.end() && found->is_string() && !found->get<std::string>().empty()) {
    return found->get<std::string>();
  }
  violations.push_back(
      {path + name, fmt::format("{}; must be a text that is not empty",
                                found == object.end() ? "absent" : found->dump())});
  return {};
}

// Does the same for a text that may be absent.
std::string TextIfAny(const Json& object, const std::string& path, const char* name,
                      Violations& violations) {
  return object.contains(name) ? Text(object, path, name, violations) : std::string();
}

// Returns the words of all ${word} in a text. One that is not closed keeps its opening, so that it
// is none of the words that we know.
std::vector<std::string> WordsIn(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = text.find("${"); at != std::string_view::npos; at = text.find("${", at)) {
    const std::size_t close = text.find('}', at);
    const bool is_closed = close != std::string_view::npos;
    words.emplace_back(is_closed ? text.substr(at + 2, close - at - 2) : text.substr(at));
    at += 2;
  }
  return words;
}

// Collects the placeholders below `value` and reports unknown ones.
void CollectPlaceholders(const Json& value, const std::string& path, std::vector<std::string>& used,
                         Violations& violations) {
  if (value.is_string()) {
    for (std::string& word : WordsIn(value.get<std::string>())) {
      if (std::ranges::find(kPlaceholders, word) == std::end(kPlaceholders)) {
        violations.push_back({path, fmt::format("'${{{}}}'; no such placeholder, must be one of {}",
                                                word, Joined(kPlaceholders))});
      }
      used.push_back(std::move(word));
    }
  } else if (value.is_object()) {
    for (const auto& [name, member] : value.items()) {
      CollectPlaceholders(member, fmt::format("{}.{}", path, name), used, violations);
    }
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      CollectPlaceholders(value[i], fmt::format("{}[{}]", path, i), used, violations);
    }
  }
}

// Reads a kind whose object stands at `path`.object.
KubernetesKind KindOf(const Json& json, const std::string& path, std::vector<std::string>& used,
                      Violations& violations) {
  KubernetesKind kind = {.plural = Text(json, path, "plural", violations)};
  const auto object = json.find("object");
  if (object == json.end() || !object->is_object()) {
    violations.push_back({path + "object", "must be a JSON object"});
    return kind;
  }
  const std::string inside = path + "object.";
  const std::string version = Text(*object, inside, "apiVersion", violations);
  Text(*object, inside, "kind", violations);
  const auto metadata = object->find("metadata");
  if (metadata == object->end() || !metadata->is_object() || !metadata->contains("name")) {
    violations.push_back({inside + "metadata.name", "missing; must be set"});
  }
  CollectPlaceholders(*object, path + "object", used, violations);
  kind.path = (version.find('/') == std::string::npos ? "/api/" : "/apis/") + version;
  kind.object = object->dump();
  return kind;
}

bool IsPointer(const std::string& text) {
  try {
    const Json::json_pointer pointer(text);
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

KubernetesStatusRow RowOf(const Json& json, const std::string& path, Violations& violations) {
  CheckFields(json, path, kRowFields, violations);
  KubernetesStatusRow row = {.condition = TextIfAny(json, path, "condition", violations),
                             .reason = TextIfAny(json, path, "reason", violations),
                             .path = TextIfAny(json, path, "path", violations),
                             .value = TextIfAny(json, path, "value", violations)};
  if (row.condition.empty() == row.path.empty() || row.path.empty() != row.value.empty()) {
    violations.push_back({path + "condition", "must be set, or else path and value"});
  }
  if (!IsPointer(row.path)) {
    violations.push_back({path + "path", fmt::format("'{}'; must be a JSON pointer", row.path)});
  }
  const std::string word = Text(json, path, "state", violations);
  const auto state = std::ranges::find(kStatusWords, word, &StatusWord::word);
  if (state != std::end(kStatusWords)) {
    row.state = state->state;
    row.end = state->end;
  } else if (!word.empty()) {
    violations.push_back(
        {path + "state", fmt::format("'{}'; must be one of {}", word, kAllStatusWords)});
  }
  const std::string end = TextIfAny(json, path, "end", violations);
  const auto kind = ParseChoice<JobEndKind>(end);
  if (kind.has_value() && word == "failed") {
    row.end = JobEnd{.kind = *kind};
  } else if (!end.empty()) {
    violations.push_back({path + "end", fmt::format("'{}'; must be one of {} if state is failed",
                                                    end, AllowedWords<JobEndKind>())});
  }
  return row;
}

std::vector<KubernetesStatusRow> RowsOf(const Json& json, Violations& violations) {
  std::vector<KubernetesStatusRow> rows;
  const auto found = json.find("status");
  if (found == json.end() || !found->is_array()) {
    violations.push_back({"status", "must be a list"});
    return rows;
  }
  for (std::size_t i = 0; i < found->size(); ++i) {
    const std::string path = fmt::format("status[{}]", i);
    if ((*found)[i].is_object()) {
      rows.push_back(RowOf((*found)[i], path + ".", violations));
    } else {
      violations.push_back({path, "must be a JSON object"});
    }
  }
  for (const std::string_view word : {"succeeded", "failed"}) {
    const bool is_success = word == "succeeded";
    const bool is_told = std::ranges::any_of(rows, [is_success](const KubernetesStatusRow& row) {
      return row.end.has_value() && (row.end->exit_code == 0) == is_success;
    });
    if (!is_told) violations.push_back({"status", fmt::format("must have a row for {}", word)});
  }
  return rows;
}

std::vector<KubernetesKind> SharedOf(const Json& json, Violations& violations) {
  std::vector<KubernetesKind> kinds;
  const auto found = json.find("shared_objects");
  if (found == json.end()) return kinds;
  if (!found->is_array()) violations.push_back({"shared_objects", "must be a list"});
  std::vector<std::string> used;
  for (std::size_t i = 0; found->is_array() && i < found->size(); ++i) {
    const std::string path = fmt::format("shared_objects[{}]", i);
    if (!(*found)[i].is_object()) {
      violations.push_back({path, "must be a JSON object"});
      continue;
    }
    CheckFields((*found)[i], path + ".", kKindFields, violations);
    kinds.push_back(KindOf((*found)[i], path + ".", used, violations));
  }
  for (const std::string& word : used) {
    if (word == "attempt_id") {
      violations.push_back({"shared_objects", "'${attempt_id}'; must not be of one job"});
    }
  }
  return kinds;
}

}  // namespace

template <>
std::span<const ChoiceWord<GangScheduler>> Choices<GangScheduler>() {
  static constexpr ChoiceWord<GangScheduler> kTable[] = {
      {GangScheduler::kOwn, "own"},
      {GangScheduler::kKueue, "kueue"},
  };
  return kTable;
}

std::span<const std::string_view> KubernetesPlaceholders() { return kPlaceholders; }

absl::StatusOr<KubernetesTemplate> ParseKubernetesTemplate(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return InvalidFields({{"", "the template is not a JSON object"}});
  Violations violations = JsonTextMistakes(json, "", TextLayout::kLines);
  if (!violations.empty()) return InvalidFields(violations);
  std::vector<std::string> used;
  CheckFields(json, "", kFields, violations);
  KubernetesTemplate made = {.job = KindOf(json, "", used, violations),
                             .shared = SharedOf(json, violations),
                             .pod_label = Text(json, "", "pod_label", violations),
                             .rank_variable = Text(json, "", "rank_variable", violations),
                             .master_address = Text(json, "", "master_address", violations),
                             .status = RowsOf(json, violations)};
  const std::string gang = Text(json, "", "gang", violations);
  if (const auto kind = ParseChoice<GangScheduler>(gang); kind.has_value()) {
    made.gang = *kind;
  } else if (!gang.empty()) {
    violations.push_back(
        {"gang", fmt::format("'{}'; must be one of {}", gang, AllowedWords<GangScheduler>())});
  }
  for (const std::string_view word : kNeeded) {
    if (std::ranges::find(used, word) == used.end()) {
      violations.push_back({"object", fmt::format("must hold '${{{}}}'", word)});
    }
  }
  const Json::json_pointer name("/object/metadata/name");
  if (json.contains(name) && json[name] != "${attempt_id}") {
    violations.push_back(
        {"object.metadata.name", fmt::format("{}; must be '${{attempt_id}}'", json[name].dump())});
  }
  for (const std::string& word : WordsIn(made.master_address)) {
    if (word != "attempt_id" && word != "name_space") {
      violations.push_back(
          {"master_address",
           fmt::format("'${{{}}}'; only attempt_id and name_space are known here", word)});
    }
  }
  if (!violations.empty()) return InvalidFields(violations);
  return made;
}

std::optional<std::string_view> FindKubernetesTemplate(std::string_view name) {
  for (const EmbeddedFile& file : kubernetes_templates()) {
    if (file.name == name) return file.text;
  }
  return std::nullopt;
}

std::string KubernetesTemplateNames() {
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : kubernetes_templates()) names.push_back(file.name);
  return Joined(names);
}

absl::StatusOr<KubernetesTemplate> LoadKubernetesTemplate(const std::string& name_or_path) {
  if (const auto text = FindKubernetesTemplate(name_or_path); text.has_value()) {
    return ParseKubernetesTemplate(std::string(*text));
  }
  std::ifstream file(name_or_path, std::ios::binary);
  const std::string text = RestOf(file);
  if (!file.is_open() || file.bad()) {
    return InvalidFields({{"job_template", fmt::format("'{}'; cannot be read", name_or_path)}});
  }
  return ParseKubernetesTemplate(text);
}

}  // namespace meshwright
