#pragma once

#include <vector>

#include "search_space/base/status.h"

namespace CLI {
class App;
}

namespace meshwright {

// Returns the values on a parsed command line that have control characters or bytes that are not
// UTF-8 (TextMistake), each under its flag's name: `--study-id`. Only a note may have several
// lines.
std::vector<FieldViolation> FlagTextMistakes(const CLI::App& app);

}  // namespace meshwright
