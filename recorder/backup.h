#pragma once

#include <string>

#include "absl/status/status.h"

struct sqlite3;

namespace meshwright {

// Copies an open store into the file `path` with SQLite's online backup. The copy is a consistent
// state, even while others read and write. The file appears under its name only when it is complete
// and durable, and replaces an existing file.
absl::Status CopyStore(sqlite3* source, const std::string& path);

}  // namespace meshwright
