#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// The rules of docs/architecture.md (folders.h) as checks of the text of the sources. The text is
// checked because the compiler cannot find violations: every folder is on the include path.

struct Violation {
  std::string file = {};
  int line = 0;  // counted from 1; 1 also if it concerns the whole file
  std::string message = {};
  bool operator==(const Violation&) const = default;
};

struct Include {
  std::string_view header;
  bool is_quoted = false;
};

// Returns the header of a line `#include <x>` or `#include "x"`, with any spaces. Returns nullopt
// for every other line.
std::optional<Include> ParseInclude(std::string_view line);

std::vector<std::string_view> SplitLines(std::string_view text);

// Returns all violations within one file, in the order of its lines. `path` is relative to the
// root of the repository.
std::vector<Violation> CheckSource(std::string_view path, std::string_view text);

}  // namespace meshwright
