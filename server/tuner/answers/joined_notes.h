#pragma once

#include <string>
#include <vector>

#include "search_space/spec/estimate.h"

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

// The defaults that one of the questions behind an answer applied.
struct NamedDefaults {
  std::string name = {};
  std::vector<AppliedDefault> defaults = {};
};

// Returns each default once, as JoinedWarnings does; one that not all of them applied has their
// names in its source, and follows the other defaults of its field.
std::vector<AppliedDefault> JoinedDefaults(const std::vector<NamedDefaults>& questions);

}  // namespace meshwright
