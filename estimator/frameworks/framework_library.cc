#include "estimator/frameworks/framework_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "estimator/frameworks/framework_files.h"
#include "estimator/frameworks/profile_facts.h"
#include "search_space/base/edit_distance.h"
#include "search_space/base/embedded_file.h"
#include "search_space/base/lower_case.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

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

// Figures that were found on runs of a framework hold only for that framework.
void ForgetRuns(FrameworkProfile& profile) {
  const FrameworkProfile fresh;
  profile.low_time_ratio = fresh.low_time_ratio;
  profile.high_time_ratio = fresh.high_time_ratio;
  profile.checked_chips = fresh.checked_chips;
  profile.checked_device_count = fresh.checked_device_count;
}

// Reads the keys of a profile file that are no facts; returns what is wrong with them.
std::vector<std::string> ReadHead(const Json& json, FrameworkEntry& entry) {
  std::vector<std::string> problems;
  const auto text = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  entry.profile.name = text("name");
  if (entry.profile.name.empty()) problems.push_back("name: missing or not a string");
  const Json is_default = json.value("is_default", Json(false));
  if (is_default.is_boolean()) {
    entry.is_default = is_default.get<bool>();
  } else {
    problems.push_back("is_default: must be true or false");
  }
  const auto read_list = [&](const char* key, std::vector<std::string>& list) {
    const Json stated = json.value(key, Json::array());
    const bool are_strings =
        stated.is_array() && std::all_of(stated.begin(), stated.end(),
                                         [](const Json& item) { return item.is_string(); });
    if (are_strings) {
      list = stated.get<std::vector<std::string>>();
    } else {
      problems.push_back(fmt::format("{}: must be a list of strings", key));
    }
  };
  read_list("versions", entry.versions);
  read_list("other_names", entry.other_names);
  read_list("run_by", entry.run_by);
  entry.profile.version = entry.versions.empty() ? "" : entry.versions.front();
  const auto provenance = ParseChoice<Provenance>(text("provenance"));
  if (provenance.has_value()) {
    entry.profile.provenance = *provenance;
  } else {
    problems.push_back("provenance: must be one of " + AllowedWords<Provenance>());
  }
  if (!json.contains("facts") || !json["facts"].is_object()) {
    problems.push_back("facts: missing or not an object");
  }
  return problems;
}

}  // namespace

absl::StatusOr<FrameworkLibrary> FrameworkLibrary::LoadBuiltIn() {
  FrameworkLibrary library;
  // A file is added once the profile that it extends is there; the others wait for the next round.
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
  std::vector<std::string> problems;
  if (json.contains("extends")) {
    const std::string base = TextOf(json["extends"]);
    const auto found = std::find_if(
        entries_.begin(), entries_.end(),
        [&](const FrameworkEntry& candidate) { return candidate.profile.name == base; });
    if (found == entries_.end()) {
      problems.push_back("extends: no profile " + base);
    } else {
      entry.profile = found->profile;
      ForgetRuns(entry.profile);
    }
  }
  const std::vector<std::string> head = ReadHead(json, entry);
  problems.insert(problems.end(), head.begin(), head.end());
  if (json.contains("facts") && json["facts"].is_object()) {
    for (const auto& [key, fact] : json["facts"].items()) {
      const absl::Status status = ReadFact(key, fact, entry);
      if (!status.ok()) problems.emplace_back(status.message());
    }
  }
  if (!problems.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("framework file {}: {}", name, fmt::join(problems, "; ")));
  }
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

FoundFramework FrameworkLibrary::Find(std::string_view name, std::string_view version) const {
  FoundFramework found;
  const FrameworkEntry* fallback = nullptr;
  for (const FrameworkEntry& entry : entries_) {
    if (entry.profile.name != name) continue;
    if (entry.is_default) fallback = &entry;
    for (const std::string& prefix : entry.versions) {
      if (!version.empty() && version.substr(0, prefix.size()) == prefix) found.entry = &entry;
    }
  }
  if (found.entry != nullptr || fallback == nullptr) return found;
  found.entry = fallback;
  if (!version.empty() && !fallback->versions.empty()) {
    found.warnings.push_back(
        fmt::format("workload.framework.version = \"{}\" of {} has no profile of its own; "
                    "estimated with that of {}",
                    version, name, fmt::join(fallback->versions, ", ")));
  }
  return found;
}

const FrameworkEntry* FrameworkLibrary::RunBy(std::string_view name) const {
  const std::string stated = LowerCase(name);
  for (const FrameworkEntry& entry : entries_) {
    if (std::ranges::count(entry.run_by, stated) > 0) return &entry;
  }
  return nullptr;
}

std::vector<std::string> FrameworkLibrary::NamesLike(std::string_view name) const {
  std::vector<std::string> names = Names();
  const std::string stated = LowerCase(name);
  const auto is_other_name_of = [&](const std::string& known) {
    return std::ranges::any_of(entries_, [&](const FrameworkEntry& entry) {
      return entry.profile.name == known && (std::ranges::count(entry.other_names, stated) > 0 ||
                                             std::ranges::count(entry.run_by, stated) > 0);
    });
  };
  std::ranges::stable_sort(names, {}, [&](const std::string& known) {
    const bool is_part = !stated.empty() && (known.find(stated) != std::string::npos ||
                                             stated.find(known) != std::string::npos);
    return std::tuple(!is_other_name_of(known), !is_part, EditDistance(stated, known));
  });
  return names;
}

std::vector<std::string> FrameworkLibrary::Names() const {
  std::set<std::string> names;
  for (const FrameworkEntry& entry : entries_) names.insert(entry.profile.name);
  return {names.begin(), names.end()};
}

}  // namespace meshwright
