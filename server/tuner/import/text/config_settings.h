#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/import/text/setting.h"

namespace meshwright {

// Each reads a file of its format as settings, with the names of nested keys joined by dots. Lists
// are values, as JSON. Errors are INVALID_ARGUMENT with the place and the reason. `file` is the
// name in places.

// "${a.b}" in YAML stands for the value of that key, as Hydra has it; one that is not in the file
// leaves the setting unresolved.
absl::StatusOr<std::vector<Setting>> YamlSettings(std::string_view text, std::string_view file);
// Refuses what configurations do not use: dates, texts of several lines, arrays of tables.
absl::StatusOr<std::vector<Setting>> TomlSettings(std::string_view text, std::string_view file);
absl::StatusOr<std::vector<Setting>> JsonSettings(std::string_view text, std::string_view file);

}  // namespace meshwright
