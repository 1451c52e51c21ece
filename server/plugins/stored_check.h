#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/plugins/wire/calibration.h"

namespace meshwright {

// The result of the last conformance check of a model in the folder of models, as the file
// `checks/<model>.json` in that folder keeps it.
struct StoredCheck {
  std::string model = {};     // as in its manifest
  std::string checksum = {};  // SHA-256 of the program or library that was checked
  std::string chip = {};      // the chip in the model's questions
  std::string time = {};      // RFC 3339, UTC
  int passed_count = 0;
  int skipped_count = 0;
  std::vector<std::string> failed = {};  // names of the checks
  bool operator==(const StoredCheck&) const = default;
};

// Returns the file that keeps a result in a folder of models.
ModelFile FileOf(const std::string& folder, const StoredCheck& check);

// Reads the result of a model; nullopt if there is none. INVALID_ARGUMENT says why the file cannot
// be used.
absl::StatusOr<std::optional<StoredCheck>> LoadCheck(const std::string& folder,
                                                     std::string_view model);

}  // namespace meshwright
