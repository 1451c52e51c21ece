#pragma once

#include <string>
#include <vector>

namespace meshwright {

// The warnings of one of the questions behind an answer.
struct NamedWarnings {
  std::string name = {};  // "16 devices"
  std::vector<std::string> warnings = {};
};

// Returns each warning once, in the order of the questions. A warning that all of them give is
// unchanged; another is preceded by the names of those that give it ("with 8 devices, 16 devices:
// ..."), of which at most four are listed.
std::vector<std::string> JoinedWarnings(const std::vector<NamedWarnings>& questions);

}  // namespace meshwright
