#pragma once

#include "absl/status/status.h"
#include "meshwright/costmodel/v1/costmodel.pb.h"

namespace meshwright {

// Checks that every column has `count` entries or none, and that every list is as long as its
// lengths say. INVALID_ARGUMENT names the first that is not.
absl::Status CheckColumns(const costmodel::v1::Candidates& candidates);

}  // namespace meshwright
