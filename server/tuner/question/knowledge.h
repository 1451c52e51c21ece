#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "estimator/frameworks/framework_library.h"
#include "vendor_models/catalogue.h"

namespace meshwright {

// The chips and frameworks that the program knows. Read-only after start; shared by all threads.
struct Knowledge {
  Catalogue chips;
  FrameworkLibrary frameworks;
};

// Loads the built-in knowledge. The chip files of a folder are added and replace built-in ones of
// the same name; an empty path means no folder.
absl::StatusOr<Knowledge> LoadKnowledge(std::string_view extra_chip_folder);

}  // namespace meshwright
