#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "recorder/sql/connection.h"

namespace meshwright {

// "MWST": SQLite's application_id of a store, at offset 68 of the file.
inline constexpr int kStoreApplicationId = 0x4D575354;

// Counts layouts of the tables and is independent of the API's version. docs/store/records.md
// describes the tables.
inline constexpr int kSchemaVersion = 15;

enum class SchemaWords { kSqlite, kPostgres };

// Creates or upgrades the tables from `version` to kSchemaVersion, within the caller's transaction.
absl::Status RunSteps(Connection* connection, int version, SchemaWords words);

// The errors of a store that cannot be opened: reasons NO_STORE, FOREIGN_STORE, NEWER_STORE,
// OLDER_STORE.
absl::Status NoStore(std::string_view address);
absl::Status ForeignStore(std::string_view address, std::string_view why);
absl::Status NewerStore(std::string_view address, std::int64_t version);
absl::Status OlderStore(std::string_view address, std::int64_t version);

}  // namespace meshwright
