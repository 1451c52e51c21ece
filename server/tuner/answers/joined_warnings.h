#pragma once

#include <string>
#include <vector>

namespace meshwright {

// What one of the questions behind an answer warns of.
struct NamedWarnings {
  std::string name = {};  // "16 devices"
  std::vector<std::string> warnings = {};
};

// Each warning once, in the order of the questions: as it is where all of them give it, else after
// the names of those that do ("with 8 devices, 16 devices: ...").
std::vector<std::string> JoinedWarnings(const std::vector<NamedWarnings>& questions);

}  // namespace meshwright
