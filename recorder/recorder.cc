#include "recorder/recorder.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "recorder/file_system.h"
#include "recorder/schema.h"
#include "recorder/sql.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

absl::Status CopyPages(sqlite3* source, const std::string& path) {
  ASSIGN_OR_RETURN(const Connection target, OpenConnection(path, ConnectionMode::kReadWrite));
  sqlite3_backup* backup = sqlite3_backup_init(target.get(), "main", source, "main");
  if (backup == nullptr) return SqlError(target.get());
  // Copies all pages in one step, so that the copy is a snapshot; in WAL mode this blocks no
  // writer.
  const int step = sqlite3_backup_step(backup, -1);
  const int finish = sqlite3_backup_finish(backup);
  if (finish != SQLITE_OK) return SqlError(target.get());
  // Finish does not report a step that met a lock, after which the copy is incomplete.
  if (step != SQLITE_DONE) {
    return WithReason(absl::UnavailableError(fmt::format("backup '{}': the store is busy", path)),
                      "STORE_BUSY");
  }
  return absl::OkStatus();
}

// Copies an open store into the file `path` with SQLite's online backup. The copy is a consistent
// state, even while others read and write. The file appears under its name only when it is complete
// and durable, and replaces an existing file.
absl::Status CopyStore(sqlite3* source, const std::string& path) {
  const std::string partial = path + ".partial";
  std::error_code error;
  std::filesystem::remove(partial, error);  // left by an earlier copy that was interrupted
  RETURN_IF_ERROR(CopyPages(source, partial));
  std::filesystem::rename(partial, path, error);
  if (error) {
    return WithReason(
        absl::UnavailableError(fmt::format("cannot write '{}': {}", path, error.message())),
        "STORE_IO");
  }
  return SyncFolderOf(path);
}

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

absl::Status CheckIntegrity(sqlite3* connection, const std::string& path) {
  const auto verdict = QueryText(connection, "PRAGMA quick_check(1)");
  if (!verdict.ok()) return verdict.status();
  if (*verdict == "ok") return absl::OkStatus();
  return WithReason(absl::DataLossError(fmt::format(
                        "store '{}' is damaged ({}); restore a backup, or name another file with "
                        "--db FILE",
                        path, *verdict)),
                    "STORE_CORRUPT");
}

// Closing the last connection of a WAL file writes its log into the file; a file that is refused
// must stay unchanged.
void KeepLogOnClose(sqlite3* connection, bool keep) {
  sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep ? 1 : 0, nullptr);
}

// Checks a file before anything is written beside it, so that a mistyped --db leaves no trace. It
// uses SQLite and not read(2), because closing any descriptor of the file would release the POSIX
// locks that another connection of this process holds on it (sqlite.org/howtocorrupt.html, 2.2).
absl::Status RefuseForeignFile(const std::string& path) {
  auto connection = OpenConnection(path, ConnectionMode::kReadOnly);
  if (!connection.ok()) return connection.status();
  KeepLogOnClose(connection->get(), true);
  const auto version = CheckIdentity(connection->get(), path);
  if (version.ok()) return absl::OkStatus();
  const std::string reason = Reason(version.status());
  // The writer's own connection handles all other cases, such as a journal that must be rolled
  // back.
  return reason == "FOREIGN_STORE" || reason == "NEWER_STORE" ? version.status() : absl::OkStatus();
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

absl::Status Upgrade(sqlite3* connection, const std::string& path, int version) {
  if (version == kSchemaVersion) return absl::OkStatus();
  if (version == 0) return Migrate(connection, version);
  const std::string backup = NewBackupName(path, version);
  RETURN_IF_ERROR(CopyStore(connection, backup));
  absl::Status migrated = Migrate(connection, version);
  if (migrated.ok()) return migrated;
  // Repeated attempts would otherwise fill the disk with copies of an unchanged file.
  const auto left = CheckIdentity(connection, path);
  std::error_code error;
  if (left.ok() && *left == version) std::filesystem::remove(backup, error);
  return migrated;
}

absl::Status RunNested(sqlite3* connection, const std::function<absl::Status()>& call) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection));
  RETURN_IF_ERROR(call());
  return transaction.Commit();
}

// Returns the error of calls that are not stored because one that ran together with them failed.
absl::Status RolledBack(const absl::Status& cause) {
  if (!cause.ok()) return cause;
  return WithReason(absl::UnavailableError("the store undid calls that ran together"), "STORE_IO");
}

}  // namespace

absl::StatusOr<Recorder> Recorder::Open(const OpenOptions& options) {
  if (options.path == kInMemory) {
    if (options.read_only) {
      return absl::InvalidArgumentError("read_only = true; a store in memory must be writable");
    }
    ASSIGN_OR_RETURN(Connection connection,
                     OpenConnection(options.path, ConnectionMode::kReadWrite));
    RETURN_IF_ERROR(Execute(connection.get(), "PRAGMA foreign_keys = ON"));
    RETURN_IF_ERROR(Migrate(connection.get(), 0));
    return Recorder(StoreLock(), std::move(connection), kSchemaVersion);
  }
  ASSIGN_OR_RETURN(const std::string path, ResolveStorePath(options.path, !options.read_only));
  RETURN_IF_ERROR(CheckLocalFileSystem(path));
  return options.read_only ? OpenReader(path) : OpenWriter(path, options);
}

absl::StatusOr<Recorder> Recorder::OpenReader(const std::string& path) {
  const auto no_store = [&path] {
    return WithReason(absl::NotFoundError(fmt::format("store '{}' does not exist", path)),
                      "NO_STORE");
  };
  if (!Exists(path)) return no_store();
  ASSIGN_OR_RETURN(Connection connection, OpenConnection(path, ConnectionMode::kReadOnly));
  ASSIGN_OR_RETURN(const int version, CheckIdentity(connection.get(), path));
  if (version == 0) return no_store();  // its first writer has not created the tables yet
  if (version < kSchemaVersion) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format(
            "store '{}' has schema version {}, this program reads {}; open it once for writing, "
            "which upgrades it and keeps a backup",
            path, version, kSchemaVersion)),
        "OLDER_STORE");
  }
  return Recorder(StoreLock(), std::move(connection), version);
}

absl::StatusOr<Recorder> Recorder::OpenWriter(const std::string& path, const OpenOptions& options) {
  if (Exists(path)) RETURN_IF_ERROR(RefuseForeignFile(path));
  ASSIGN_OR_RETURN(StoreLock lock, StoreLock::Acquire(path, options.who, options.lock_wait));
  const bool needs_check = StoppedUncleanly(path, lock);
  ASSIGN_OR_RETURN(Connection connection, OpenConnection(path, ConnectionMode::kReadWrite));
  sqlite3* const raw = connection.get();
  KeepLogOnClose(raw, true);
  ASSIGN_OR_RETURN(const int version, CheckIdentity(raw, path));
  if (needs_check) RETURN_IF_ERROR(CheckIntegrity(raw, path));
  KeepLogOnClose(raw, false);
  // Keeps the data that a savepoint may have to undo in memory, because a temporary file on another
  // disk could fail too.
  RETURN_IF_ERROR(Execute(
      raw, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY"));
  RETURN_IF_ERROR(Upgrade(raw, path, version));
  // Comes after the first transaction, so that a new file is either empty or complete, never a bare
  // header.
  ASSIGN_OR_RETURN(const std::string mode, QueryText(raw, "PRAGMA journal_mode = WAL"));
  if (mode != "wal") {
    return WithReason(absl::UnavailableError(
                          fmt::format("store '{}': journal mode is {}; must be wal", path, mode)),
                      "STORE_IO");
  }
  lock.ReleaseInOrder();
  return Recorder(std::move(lock), std::move(connection), kSchemaVersion);
}

Recorder::Recorder(StoreLock lock, Connection connection, int schema_version)
    : lock_(std::move(lock)), connection_(std::move(connection)), schema_version_(schema_version) {}

Recorder& Recorder::operator=(Recorder&& other) noexcept {
  // The old connection must close before the old lock is released.
  connection_ = std::move(other.connection_);
  lock_ = std::move(other.lock_);
  schema_version_ = other.schema_version_;
  return *this;
}

std::vector<absl::Status> Recorder::RunTogether(std::span<const StoreCall> calls) {
  std::vector<absl::Status> results(calls.size());
  std::size_t first = 0;  // the first call that is not durable yet
  std::size_t next = 0;
  const auto fail = [&](const absl::Status& status) {
    for (std::size_t i = first; i < next; ++i) {
      if (results[i].ok()) results[i] = status;
    }
    first = next;
  };
  while (next < calls.size()) {
    auto transaction = Transaction::Begin(connection_.get());
    if (!transaction.ok()) {
      next = calls.size();
      fail(transaction.status());
      break;
    }
    // If a disk is full or failing, SQLite rolls back everything that ran together; the calls that
    // have not run yet then start again.
    while (next < calls.size() && sqlite3_get_autocommit(connection_.get()) == 0) {
      results[next] = RunNested(connection_.get(), [&] { return calls[next](*this); });
      ++next;
    }
    const bool is_whole = sqlite3_get_autocommit(connection_.get()) == 0;
    const absl::Status committed = is_whole ? transaction->Commit() : RolledBack(results[next - 1]);
    if (!committed.ok()) fail(committed);
    first = next;
  }
  return results;
}

absl::Status Recorder::Backup(const std::string& path) const {
  if (sqlite3_get_autocommit(connection_.get()) == 0) {
    return absl::FailedPreconditionError("a backup is not made among calls that run together");
  }
  if (Exists(path)) {
    return absl::AlreadyExistsError(fmt::format("backup '{}' exists; name a new file", path));
  }
  return CopyStore(connection_.get(), path);
}

std::string Recorder::path() const {
  const char* const name = sqlite3_db_filename(connection_.get(), "main");
  return name == nullptr ? "" : name;
}

}  // namespace meshwright
