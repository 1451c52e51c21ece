#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// The table of docs/architecture.md as a check over `#include` lines: which folder may use which,
// and which third-party headers it may see. A text check, because what a compiler sees is already
// allowed: every folder is on the include path.

// One folder of the project. The longest row that a file's path starts with holds for it.
struct FolderRule {
  std::string_view path;
  std::span<const std::string_view> may_use = {};  // other folders; kAnyFolder alone: every one
  bool may_use_any_library = false;                // tests and benchmarks: not part of the product
  bool is_pure = false;                            // floors 1-3: no threads, no clock
  bool has_subfolders = true;                      // false: what lies deeper needs a row of its own
};

inline constexpr std::string_view kAnyFolder = "*";

struct Violation {
  std::string file = {};
  int line = 0;  // counted from 1; of the whole file: 1
  std::string message = {};
  bool operator==(const Violation&) const = default;
};

std::span<const FolderRule> FolderRules();

// All violations of one file, in the order of its lines. `path` is relative to the repository's
// root.
std::vector<Violation> CheckSource(std::string_view path, std::string_view text);

}  // namespace meshwright
