#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;

namespace meshwright {

// SQLite's application_id of a store: "MWST", at offset 68 of the file.
inline constexpr int kStoreApplicationId = 0x4D575354;

// SQLite's user_version. It counts layouts of the tables and is independent of the API's version.
// docs/store/records.md describes the tables.
inline constexpr int kSchemaVersion = 13;

// Returns the schema version of an open file; 0 for an empty one. FAILED_PRECONDITION with reason
// FOREIGN_STORE if the file is not a store, NEWER_STORE if a later program wrote it.
absl::StatusOr<int> CheckIdentity(sqlite3* connection, const std::string& path);

// Creates or upgrades the tables from `version` to kSchemaVersion, all in one transaction.
absl::Status Migrate(sqlite3* connection, int version);

}  // namespace meshwright
