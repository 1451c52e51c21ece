#include "server/tuner/question/framework_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "estimator/frameworks/profile_facts.h"

namespace meshwright {
namespace {

// Facts that tell what a profile was checked on. They come from measured runs, not from a workload.
constexpr std::string_view kEvidence[] = {"low_time_ratio", "high_time_ratio", "checked_chips",
                                          "checked_device_count"};

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

std::string UnknownFramework(const std::string& name, const FrameworkLibrary& frameworks) {
  if (const FrameworkEntry* run = frameworks.RunBy(name)) {
    return fmt::format(
        "\"{0}\"; {0} runs {1}: use --framework {1}, then meshwright export --framework {0}", name,
        run->profile.name);
  }
  return fmt::format("\"{}\"; must be one of {}", name,
                     fmt::join(frameworks.NamesLike(name), ", "));
}

FoundFramework FindFramework(const WorkloadRequest& workload, const Knowledge& knowledge) {
  return knowledge.frameworks.Find(workload.framework_name.value_or("generic"),
                                   workload.framework_version.value_or(""));
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
