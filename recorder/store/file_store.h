#pragma once

#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/sqlite.h"
#include "recorder/store/opened_store.h"

namespace meshwright {

// Opens a store in an SQLite file or in memory, as Recorder::Open does. A writer creates the file
// and upgrades an older one, of which it keeps a copy.
absl::StatusOr<OpenedStore> OpenFileStore(const OpenOptions& options);

// Copies an open store into the file `path` with SQLite's online backup. The copy is a consistent
// state, even while others read and write. The file appears under its name only when it is complete
// and durable, and replaces an existing file. CANCELLED, without a file, once a stop is requested.
absl::Status CopyStore(SqliteConnection& source, const std::string& path,
                       const std::stop_token& stop = {});

}  // namespace meshwright
