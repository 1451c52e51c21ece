#pragma once

#include "absl/status/status.h"
#include "meshwright/costmodel/v1/costmodel.pb.h"

namespace meshwright {

// Whether every column has `count` entries or none, and every list as many as its lengths say.
// INVALID_ARGUMENT names the first that has not.
absl::Status CheckColumns(const costmodel::v1::Candidates& candidates);

}  // namespace meshwright
