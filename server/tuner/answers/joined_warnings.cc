#include "server/tuner/answers/joined_warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace meshwright {

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
                                 : fmt::format("with {}: {}", fmt::join(names, ", "), warning));
    }
  }
  return joined;
}

}  // namespace meshwright
