#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"

namespace meshwright {

// Opens the store of a command that runs without a server. A missing store reads as an empty one.
absl::StatusOr<Recorder> OpenLocalReader(const std::string& store);
// Opens the store for each read and closes it again, so that no other command is kept out and a
// store that is made later is seen. Writing is refused.
StoreAccess LocalReads(const std::string& store);
// Opens the store for writing, creates it if it is missing, and waits a moment for other commands.
absl::StatusOr<Recorder> OpenLocalWriter(const std::string& store, const std::string& who);

}  // namespace meshwright
