#pragma once

#include <functional>

#include "absl/status/status.h"
#include "recorder/recorder.h"

namespace meshwright {

// Lends the one writing Recorder of a process to `use`, which must be done with it soon: nobody
// else has it meanwhile. A server's is the engine's (Engine::UseStore), a command's its own.
using StoreUse = std::function<absl::Status(Recorder& store)>;
using StoreAccess = std::function<absl::Status(const StoreUse& use)>;

}  // namespace meshwright
