#include "estimator/framework_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "estimator/framework_files.h"
#include "estimator/profile_facts.h"
#include "search_space/status.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kRootProfile = "generic";

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

absl::Status ReadFact(const std::string& key, const Json& fact, FrameworkEntry& entry) {
  if (!fact.is_object() || !fact.contains("value") || !fact.contains("source") ||
      !fact.contains("confidence") || !fact["source"].is_string() ||
      !fact["confidence"].is_string() ||
      !ParseChoice<Confidence>(fact["confidence"].get<std::string>()).has_value()) {
    return absl::InvalidArgumentError(key +
                                      ": must be {value, source, confidence: high | medium | low}");
  }
  const std::string text = TextOf(fact["value"]);
  RETURN_IF_ERROR(SetFact(key, text, entry.profile));
  entry.facts.push_back({.key = key,
                         .value = text,
                         .source = fact["source"].get<std::string>(),
                         .confidence = fact["confidence"].get<std::string>()});
  return absl::OkStatus();
}

// The keys of a profile file beside its facts.
absl::Status ReadHead(const Json& json, FrameworkEntry& entry) {
  if (!json.contains("name") || !json["name"].is_string()) {
    return absl::InvalidArgumentError("name: missing or not a string");
  }
  entry.profile.name = json["name"].get<std::string>();
  entry.is_default = json.value("is_default", false);
  for (const Json& version : json.value("versions", Json::array())) {
    if (!version.is_string()) return absl::InvalidArgumentError("versions: must be strings");
    entry.versions.push_back(version.get<std::string>());
  }
  entry.profile.version = entry.versions.empty() ? "" : entry.versions.front();
  const auto provenance = ParseChoice<Provenance>(json.value("provenance", ""));
  if (!provenance.has_value()) {
    return absl::InvalidArgumentError("provenance: must be one of " + AllowedWords<Provenance>());
  }
  entry.profile.provenance = *provenance;
  if (!json.contains("facts") || !json["facts"].is_object()) {
    return absl::InvalidArgumentError("facts: missing or not an object");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FrameworkLibrary> FrameworkLibrary::LoadBuiltIn() {
  FrameworkLibrary library;
  // A file is added once what it extends is there; the rest waits for the next round.
  std::vector<EmbeddedFile> waiting(framework_files().begin(), framework_files().end());
  while (!waiting.empty()) {
    std::vector<EmbeddedFile> later;
    absl::Status last;
    for (const EmbeddedFile& file : waiting) {
      last = library.AddFile(file.name, file.text);
      if (!last.ok()) later.push_back(file);
    }
    if (later.size() == waiting.size()) return last;
    waiting = std::move(later);
  }
  std::sort(library.entries_.begin(), library.entries_.end(),
            [](const FrameworkEntry& a, const FrameworkEntry& b) {
              return std::tie(a.profile.name, a.profile.version) <
                     std::tie(b.profile.name, b.profile.version);
            });
  return library;
}

absl::Status FrameworkLibrary::AddFile(std::string_view name, std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(fmt::format("framework file {}: not a JSON object", name));
  }
  FrameworkEntry entry;
  std::string problems;
  const auto note = [&](const absl::Status& status) {
    if (!status.ok()) problems += (problems.empty() ? "" : "; ") + std::string(status.message());
  };
  if (json.contains("extends")) {
    const std::string base = TextOf(json["extends"]);
    const auto found = std::find_if(
        entries_.begin(), entries_.end(),
        [&](const FrameworkEntry& candidate) { return candidate.profile.name == base; });
    if (found == entries_.end()) {
      note(absl::InvalidArgumentError("extends: no profile " + base));
    } else {
      entry.profile = found->profile;
    }
  }
  note(ReadHead(json, entry));
  if (json.contains("facts") && json["facts"].is_object()) {
    for (const auto& [key, fact] : json["facts"].items()) note(ReadFact(key, fact, entry));
  }
  if (!problems.empty()) {
    return absl::InvalidArgumentError(fmt::format("framework file {}: {}", name, problems));
  }
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

FoundFramework FrameworkLibrary::Find(std::string_view name, std::string_view version) const {
  FoundFramework found;
  const FrameworkEntry* generic = nullptr;
  const FrameworkEntry* fallback = nullptr;
  for (const FrameworkEntry& entry : entries_) {
    if (entry.profile.name == kRootProfile) generic = &entry;
    if (entry.profile.name != name) continue;
    if (entry.is_default) fallback = &entry;
    for (const std::string& prefix : entry.versions) {
      if (!version.empty() && version.substr(0, prefix.size()) == prefix) found.entry = &entry;
    }
  }
  if (found.entry != nullptr) return found;
  if (fallback == nullptr) {
    found.entry = generic;
    found.warnings.push_back(
        fmt::format("workload.framework.name = \"{}\" is not known; estimated with the profile "
                    "`generic` (known: {})",
                    name, fmt::join(Names(), ", ")));
    return found;
  }
  found.entry = fallback;
  if (!version.empty() && !fallback->versions.empty()) {
    found.warnings.push_back(
        fmt::format("workload.framework.version = \"{}\" of {} has no profile of its own; "
                    "estimated with that of {}",
                    version, name, fmt::join(fallback->versions, ", ")));
  }
  return found;
}

std::vector<std::string> FrameworkLibrary::Names() const {
  std::set<std::string> names;
  for (const FrameworkEntry& entry : entries_) names.insert(entry.profile.name);
  return {names.begin(), names.end()};
}

}  // namespace meshwright
