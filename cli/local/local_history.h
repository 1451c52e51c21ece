#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"

namespace meshwright {

// Opens the store of a command that runs without a server. Before the first study the default store
// is missing and reads as an empty one; another one that is missing is NOT_FOUND, as its name is
// likely to be mistyped.
absl::StatusOr<Recorder> OpenLocalReader(const std::string& store);
// Opens the store for each read and closes it again, so that no other command is kept out and a
// store that is made later is seen. Writing is refused.
StoreAccess LocalReads(const std::string& store);
// Opens the store for writing, creates it if it is missing, and waits a moment for other commands.
absl::StatusOr<Recorder> OpenLocalWriter(const std::string& store, const std::string& who);

}  // namespace meshwright
