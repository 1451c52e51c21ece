#include "server/tuner/answers/joined_warnings.h"

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

}  // namespace

std::vector<std::string> JoinedWarnings(const std::vector<NamedWarnings>& questions) {
  std::vector<std::string> seen;
  std::vector<std::string> joined;
  for (const NamedWarnings& question : questions) {
    for (const std::string& warning : question.warnings) {
      if (std::ranges::find(seen, warning) != seen.end()) continue;
      seen.push_back(warning);
      std::vector<std::string> names;
      for (const NamedWarnings& each : questions) {
        const bool gives = std::ranges::find(each.warnings, warning) != each.warnings.end();
        if (gives) names.push_back(each.name);
      }
      const bool is_of_all = names.size() == questions.size();
      joined.push_back(is_of_all ? warning
                                 : fmt::format("with {}: {}", Listed(std::move(names)), warning));
    }
  }
  return joined;
}

}  // namespace meshwright
