#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "vendor_models/abi/meshwright_costmodel.h"

namespace meshwright {

// Loads a vendor's shared library into this process, for good, and returns its table of functions.
// FAILED_PRECONDITION if it is no cost model, or has another major version.
absl::StatusOr<const mw_costmodel_api*> LoadLibraryModel(const std::string& path);

}  // namespace meshwright
