#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "recorder/recorder.h"

namespace meshwright {

// The store of a command that has no server. A store that does not exist reads as an empty one.
absl::StatusOr<Recorder> OpenLocalReader(const std::string& store);
// Creates the store if need be; waits a moment for another command to be done with it.
absl::StatusOr<Recorder> OpenLocalWriter(const std::string& store, const std::string& who);

}  // namespace meshwright
