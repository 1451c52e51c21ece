#include "recorder/store/file_store.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "recorder/sql/sql.h"
#include "recorder/store/file_system.h"
#include "recorder/store/schema.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

constexpr char kInMemory[] = ":memory:";

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Returns true if the last writer did not close in order. One that did leaves no log, or an empty
// one, unless a reader prevents the removal of the log; then the lock tells.
bool StoppedUncleanly(const std::string& path, const StoreLock& lock) {
  if (lock.EndedInOrder()) return false;
  std::error_code error;
  const auto size = std::filesystem::file_size(path + "-wal", error);
  return !error && size > 0;
}

// Returns the schema version of an open file; 0 for an empty one. FAILED_PRECONDITION with reason
// FOREIGN_STORE if the file is not a store, NEWER_STORE if a later program wrote it.
absl::StatusOr<int> CheckIdentity(Connection* connection, const std::string& path) {
  const auto application_id = QueryInteger(connection, "PRAGMA application_id");
  if (absl::IsDataLoss(application_id.status())) {
    return ForeignStore(path, "it is not an SQLite file");
  }
  if (!application_id.ok()) return application_id.status();
  ASSIGN_OR_RETURN(const std::int64_t version, QueryInteger(connection, "PRAGMA user_version"));
  if (*application_id != kStoreApplicationId) {
    ASSIGN_OR_RETURN(const std::int64_t table_count,
                     QueryInteger(connection, "SELECT count(*) FROM sqlite_schema"));
    if (table_count == 0 && *application_id == 0 && version == 0) return 0;
    return ForeignStore(path, fmt::format("its SQLite application_id is {}, not {}",
                                          *application_id, kStoreApplicationId));
  }
  if (version > kSchemaVersion) return NewerStore(path, version);
  return static_cast<int>(version);
}

absl::Status CheckIntegrity(Connection* connection, const std::string& path) {
  const auto verdict = QueryText(connection, "PRAGMA quick_check(1)");
  if (!verdict.ok()) return verdict.status();
  if (*verdict == "ok") return absl::OkStatus();
  return WithReason(absl::DataLossError(fmt::format(
                        "store '{}' is damaged ({}); restore a backup, or name another file with "
                        "--db FILE",
                        path, *verdict)),
                    "STORE_CORRUPT");
}

// Checks a file before anything is written beside it, so that a mistyped --db leaves no trace. It
// uses SQLite and not read(2), because closing any descriptor of the file would release the POSIX
// locks that another connection of this process holds on it (sqlite.org/howtocorrupt.html, 2.2).
absl::Status RefuseForeignFile(const std::string& path) {
  auto connection = SqliteConnection::Open(path, ConnectionMode::kReadOnly);
  if (!connection.ok()) return connection.status();
  (*connection)->KeepLogOnClose(true);  // a file that is refused must stay unchanged
  const auto version = CheckIdentity(connection->get(), path);
  if (version.ok()) return absl::OkStatus();
  const std::string reason = Reason(version.status());
  // The writer's own connection handles all other cases, such as a journal that must be rolled
  // back.
  return reason == "FOREIGN_STORE" || reason == "NEWER_STORE" ? version.status() : absl::OkStatus();
}

absl::Status MigrateTables(Connection* connection, int version) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection));
  RETURN_IF_ERROR(RunSteps(connection, version, SchemaWords::kSqlite));
  RETURN_IF_ERROR(
      connection->Execute(fmt::format("PRAGMA application_id = {};"
                                      "PRAGMA user_version = {};",
                                      kStoreApplicationId, kSchemaVersion)));
  ASSIGN_OR_RETURN(const std::int64_t broken,
                   QueryInteger(connection, "SELECT count(*) FROM pragma_foreign_key_check()"));
  if (broken > 0) {
    return WithReason(
        absl::DataLossError(fmt::format("{} rows refer to rows that are not there", broken)),
        "STORE_CORRUPT");
  }
  return transaction.Commit();
}

// Creates or upgrades the tables from `version` to kSchemaVersion, all in one transaction. Turns
// foreign keys off meanwhile, which is not possible inside a transaction. A table that is rebuilt
// is first dropped, which must not delete the rows that refer to it
// (sqlite.org/lang_altertable.html, 7).
absl::Status Migrate(Connection* connection, int version) {
  if (version == kSchemaVersion) return absl::OkStatus();
  RETURN_IF_ERROR(connection->Execute("PRAGMA foreign_keys = OFF"));
  absl::Status migrated = MigrateTables(connection, version);
  RETURN_IF_ERROR(connection->Execute("PRAGMA foreign_keys = ON"));
  return migrated;
}

// Returns a name that is not in use. Backups of earlier upgrades stay, because an older file may
// have been put in place since.
std::string NewBackupName(const std::string& path, int version) {
  std::string name = fmt::format("{}.v{}.bak", path, version);
  for (int number = 2; Exists(name); ++number) {
    name = fmt::format("{}.v{}.{}.bak", path, version, number);
  }
  return name;
}

absl::Status Upgrade(SqliteConnection& connection, const std::string& path, int version) {
  if (version == kSchemaVersion) return absl::OkStatus();
  if (version == 0) return Migrate(&connection, version);
  const std::string backup = NewBackupName(path, version);
  RETURN_IF_ERROR(CopyStore(connection, backup));
  absl::Status migrated = Migrate(&connection, version);
  if (migrated.ok()) return migrated;
  // Repeated attempts would otherwise fill the disk with copies of an unchanged file.
  const auto left = CheckIdentity(&connection, path);
  std::error_code error;
  if (left.ok() && *left == version) std::filesystem::remove(backup, error);
  return migrated;
}

absl::StatusOr<OpenedStore> OpenInMemory() {
  ASSIGN_OR_RETURN(auto connection, SqliteConnection::Open(kInMemory, ConnectionMode::kReadWrite));
  RETURN_IF_ERROR(connection->Execute("PRAGMA foreign_keys = ON"));
  RETURN_IF_ERROR(Migrate(connection.get(), 0));
  return OpenedStore{.connection = std::move(connection)};
}

absl::StatusOr<OpenedStore> OpenReader(const std::string& path) {
  if (!Exists(path)) return NoStore(path);
  ASSIGN_OR_RETURN(auto connection, SqliteConnection::Open(path, ConnectionMode::kReadOnly));
  ASSIGN_OR_RETURN(const int version, CheckIdentity(connection.get(), path));
  if (version == 0) return NoStore(path);  // its first writer has not created the tables yet
  if (version < kSchemaVersion) return OlderStore(path, version);
  return OpenedStore{.connection = std::move(connection), .address = path};
}

absl::StatusOr<OpenedStore> OpenWriter(const std::string& path, const OpenOptions& options) {
  if (Exists(path)) RETURN_IF_ERROR(RefuseForeignFile(path));
  ASSIGN_OR_RETURN(StoreLock lock, StoreLock::Acquire(path, options.who, options.lock_wait));
  const bool needs_check = StoppedUncleanly(path, lock);
  ASSIGN_OR_RETURN(auto connection, SqliteConnection::Open(path, ConnectionMode::kReadWrite));
  connection->KeepLogOnClose(true);
  ASSIGN_OR_RETURN(const int version, CheckIdentity(connection.get(), path));
  if (needs_check) RETURN_IF_ERROR(CheckIntegrity(connection.get(), path));
  connection->KeepLogOnClose(false);
  // Keeps the data that a savepoint may have to undo in memory, because a temporary file on another
  // disk could fail too.
  RETURN_IF_ERROR(connection->Execute(
      "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY"));
  RETURN_IF_ERROR(Upgrade(*connection, path, version));
  // Comes after the first transaction, so that a new file is either empty or complete, never a bare
  // header.
  ASSIGN_OR_RETURN(const std::string mode,
                   QueryText(connection.get(), "PRAGMA journal_mode = WAL"));
  if (mode != "wal") {
    return WithReason(absl::UnavailableError(
                          fmt::format("store '{}': journal mode is {}; must be wal", path, mode)),
                      "STORE_IO");
  }
  lock.ReleaseInOrder();
  return OpenedStore{.lock = std::move(lock), .connection = std::move(connection), .address = path};
}

}  // namespace

absl::StatusOr<OpenedStore> OpenFileStore(const OpenOptions& options) {
  if (options.path == kInMemory) {
    if (!options.read_only) return OpenInMemory();
    return absl::InvalidArgumentError("read_only = true; a store in memory must be writable");
  }
  ASSIGN_OR_RETURN(const std::string path, ResolveStorePath(options.path, !options.read_only));
  RETURN_IF_ERROR(CheckLocalFileSystem(path));
  return options.read_only ? OpenReader(path) : OpenWriter(path, options);
}

absl::Status CopyStore(SqliteConnection& source, const std::string& path,
                       const std::stop_token& stop) {
  const std::string partial = path + ".partial";
  std::error_code error;
  std::filesystem::remove(partial, error);  // left by an earlier copy that was interrupted
  if (absl::Status copied = source.CopyPagesInto(partial, stop); !copied.ok()) {
    std::filesystem::remove(partial, error);
    return copied;
  }
  std::filesystem::rename(partial, path, error);
  if (error) {
    return WithReason(
        absl::UnavailableError(fmt::format("cannot write '{}': {}", path, error.message())),
        "STORE_IO");
  }
  return SyncFolderOf(path);
}

}  // namespace meshwright
