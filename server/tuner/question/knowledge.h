#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "estimator/frameworks/framework_library.h"
#include "vendor_models/catalogue.h"

namespace meshwright {

// Chips and frameworks that the program knows. Read-only after start, shared by all threads.
struct Knowledge {
  Catalogue chips;
  FrameworkLibrary frameworks;
};

// Loads the built-in knowledge, with the chip files of a folder beside or in place of its own;
// empty: none.
absl::StatusOr<Knowledge> LoadKnowledge(std::string_view extra_chip_folder);

}  // namespace meshwright
