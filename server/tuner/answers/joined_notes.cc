#include "server/tuner/answers/joined_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace meshwright {
namespace {

constexpr std::size_t kMaxNames = 4;

// Lists a few names, and counts the others.
std::string Listed(std::vector<std::string> names) {
  const std::size_t count = names.size();
  if (count <= kMaxNames) return fmt::format("{}", fmt::join(names, ", "));
  names.resize(kMaxNames - 1);
  return fmt::format("{} and {} others", fmt::join(names, ", "), count - names.size());
}

// Returns the names of the questions for which `has` is true, or "" if it is for all.
template <typename Question, typename Has>
std::string NamesOf(const std::vector<Question>& questions, const Has& has) {
  std::vector<std::string> names;
  for (const Question& each : questions) {
    if (has(each)) names.push_back(each.name);
  }
  return names.size() == questions.size() ? "" : Listed(std::move(names));
}

}  // namespace

std::vector<std::string> JoinedWarnings(const std::vector<NamedWarnings>& questions) {
  std::vector<std::string> seen;
  std::vector<std::string> joined;
  for (const NamedWarnings& question : questions) {
    for (const std::string& warning : question.warnings) {
      if (std::ranges::find(seen, warning) != seen.end()) continue;
      seen.push_back(warning);
      const std::string names = NamesOf(questions, [&](const NamedWarnings& each) {
        return std::ranges::find(each.warnings, warning) != each.warnings.end();
      });
      joined.push_back(names.empty() ? warning : fmt::format("with {}: {}", names, warning));
    }
  }
  return joined;
}

std::vector<AppliedDefault> JoinedDefaults(const std::vector<NamedDefaults>& questions) {
  std::vector<AppliedDefault> seen;
  std::vector<AppliedDefault> joined;
  for (const NamedDefaults& question : questions) {
    for (const AppliedDefault& applied : question.defaults) {
      if (std::ranges::find(seen, applied) != seen.end()) continue;
      seen.push_back(applied);
      const std::string names = NamesOf(questions, [&](const NamedDefaults& each) {
        return std::ranges::find(each.defaults, applied) != each.defaults.end();
      });
      // Values of one field follow each other.
      const auto last =
          std::ranges::find(joined.rbegin(), joined.rend(), applied.field, &AppliedDefault::field);
      const auto at = joined.insert(last == joined.rend() ? joined.end() : last.base(), applied);
      if (!names.empty()) at->source += ", with " + names;
    }
  }
  return joined;
}

}  // namespace meshwright
