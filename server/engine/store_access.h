#pragma once

#include <functional>

#include "absl/status/status.h"
#include "recorder/recorder.h"

namespace meshwright {

// How the store is reached for one call, which must be done with it soon, since nobody else has it
// meanwhile: an engine locks the one that it has open (Engine::UseStore), a command opens it.
using StoreAccess = std::function<absl::Status(const StoreCall&)>;

}  // namespace meshwright
