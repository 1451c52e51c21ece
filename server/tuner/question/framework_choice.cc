#include "server/tuner/question/framework_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "estimator/frameworks/profile_facts.h"
#include "estimator/legality/legality.h"
#include "estimator/problem/legality_rule.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/layer_list.h"

namespace meshwright {
namespace {

constexpr std::string_view kMegatronCore = "megatron-core";

// Facts that tell what a profile was checked on. They come from measured runs, not from a workload.
constexpr std::string_view kEvidence[] = {"low_time_ratio", "high_time_ratio", "checked_chips",
                                          "checked_device_count"};

bool HasMixedWindows(const ModelSpec& model) {
  const std::vector<LayerRun> runs = RunsOf(model);
  const auto has_window = [](const LayerRun& run) { return run.kind.sliding_window > 0; };
  return std::ranges::any_of(runs, has_window) && !std::ranges::all_of(runs, has_window);
}

bool IsLaterMegatron(const FrameworkProfile& profile) {
  return profile.name == kMegatronCore && profile.version == kLaterMegatron;
}

}  // namespace

std::vector<FieldViolation> ApplyFacts(const WorkloadRequest& workload, FrameworkProfile& profile) {
  std::vector<FieldViolation> violations;
  const std::vector<FrameworkFactRequest>& facts = workload.framework_facts;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const auto reject = [&](std::string description) {
      violations.push_back({.field = fmt::format("workload.framework.facts[{}]", i),
                            .description = std::move(description)});
    };
    const bool is_repeated = std::any_of(
        facts.begin(), facts.begin() + static_cast<std::ptrdiff_t>(i),
        [&](const FrameworkFactRequest& before) { return before.name == facts[i].name; });
    if (is_repeated) reject(facts[i].name + "; stated twice");
    if (std::ranges::find(kEvidence, facts[i].name) != std::end(kEvidence)) {
      reject(facts[i].name + "; is found from measured runs");
      continue;
    }
    if (facts[i].name.empty() || facts[i].value.empty()) continue;  // reported by the reader
    const absl::Status status = SetFact(facts[i].name, facts[i].value, profile);
    if (!status.ok()) reject(std::string(status.message()));
  }
  return violations;
}

std::vector<ModelPart> PartsOfLaterMegatron(const ModelSpec& model) {
  std::vector<ModelPart> parts;
  const auto add = [&](bool has, std::string_view field, std::string_view what) {
    if (has) parts.push_back({.field = field, .what = what});
  };
  add(HasMixedWindows(model), "model.layers", "windows in some layers");
  add(model.attention_sinks, "model.attention_sinks", "sinks of attention");
  add(model.moe.has_value() && HasFeedForwardBias(model), "model.biases", "biases of experts");
  add(model.mlp == MlpKind::kQuickGeglu &&
          (model.glu_offset != 0 || model.activation_clamp.has_value()),
      "model.activation_clamp", "an offset and a limit of the gate");
  return parts;
}

std::string UnknownFramework(const std::string& name, const FrameworkLibrary& frameworks) {
  if (const FrameworkEntry* run = frameworks.RunBy(name)) {
    return fmt::format(
        "\"{0}\"; {0} runs {1}: use --framework {1}, then meshwright export --framework {0}", name,
        run->profile.name);
  }
  return fmt::format("\"{}\"; must be one of {}", name,
                     fmt::join(frameworks.NamesLike(name), ", "));
}

FoundFramework FindFramework(const WorkloadRequest& workload, const ModelSpec& model,
                             const Knowledge& knowledge) {
  const std::string name = workload.framework_name.value_or("generic");
  std::string version = workload.framework_version.value_or("");
  if (version.empty() && name == kMegatronCore && !PartsOfLaterMegatron(model).empty()) {
    version = kLaterMegatron;
  }
  return knowledge.frameworks.Find(name, version);
}

std::string WhyUnknownVersion(std::string_view framework, std::string_view version) {
  const auto library = FrameworkLibrary::LoadBuiltIn();
  if (!library.ok()) return std::string(library.status().message());
  if (const FrameworkEntry* run = library->RunBy(framework)) {
    return fmt::format("{}:{}; {} runs {}, whose version counts: {}:VERSION", framework, version,
                       framework, run->profile.name, run->profile.name);
  }
  std::vector<std::string> known;
  const auto add = [&](std::string_view one) {
    if (one.empty() || std::ranges::find(known, one) != known.end()) return;
    known.emplace_back(one);
  };
  for (const FrameworkEntry& entry : library->entries()) {
    if (entry.profile.name != framework) continue;
    for (const std::string& prefix : entry.versions) add(prefix);
  }
  if (known.empty()) return "";
  for (const LegalityRule* rule : AllLegalityRules()) {
    if (!IsListed(framework, rule->frameworks)) continue;
    add(rule->versions.since);
    add(rule->versions.before);
  }
  const bool is_known = std::ranges::any_of(known, [&](const std::string& prefix) {
    const std::string_view rest = version.starts_with(prefix) ? version.substr(prefix.size()) : "?";
    return rest.empty() || rest.front() == '.';
  });
  if (is_known) return "";
  std::ranges::sort(known, [](const auto& a, const auto& b) { return IsOlder(a, b); });
  return fmt::format("{}:{}; known versions of {} are {}", framework, version, framework,
                     fmt::join(known, ", "));
}

std::string VersionSource(const FrameworkProfile& profile) {
  if (!IsLaterMegatron(profile)) return "the framework's default profile";
  return "the first release with windows in some layers only, sinks of attention and biases of "
         "experts (\"Enable SWA mixing with attention\", \"Fix sink attention TP\" and \"Enable "
         "bias in expert MLP\", CHANGELOG.md of Megatron-Core 0.15.0)";
}

std::string FactsNote(const WorkloadRequest& workload, const FrameworkProfile& profile) {
  std::string names;
  for (const FrameworkFactRequest& fact : workload.framework_facts) {
    names += (names.empty() ? "" : ", ") + fact.name;
  }
  return fmt::format(
      "facts that the workload states instead of framework profile {}: {}; the profile's interval "
      "was found without them",
      profile.name, names);
}

std::string ProfileName(const FrameworkProfile& profile) {
  return profile.version.empty() ? "framework profile " + profile.name
                                 : "framework profile " + profile.name + " " + profile.version;
}

std::string Extrapolation(const FrameworkProfile& profile) {
  if (profile.checked_chips.empty()) {
    return fmt::format("{} was not checked against any measured run", ProfileName(profile));
  }
  return fmt::format(
      "{} was not checked against measured runs on a cluster like this one, only on {} with up to "
      "{} devices",
      ProfileName(profile), fmt::join(profile.checked_chips, ", "), profile.checked_device_count);
}

std::string ResolveVersion(const WorkloadRequest& stated, const FrameworkEntry& framework) {
  const std::string version = stated.framework_version.value_or("");
  if (version.empty()) return framework.profile.version;
  for (const std::string& prefix : framework.versions) {
    if (version.starts_with(prefix)) return prefix;
  }
  return version;
}

}  // namespace meshwright
