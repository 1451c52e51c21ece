#include "recorder/sql/sqlite.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <span>
#include <variant>

#include "recorder/sql/sql.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

// The lock file keeps writers apart, so this timeout is for checkpoints, migrations and tools such
// as the sqlite3 shell.
constexpr int kBusyTimeoutMs = 5000;

absl::Status ConstraintError(int extended_code, const std::string& message) {
  switch (extended_code) {
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_UNIQUE:
      return absl::AlreadyExistsError(message);
    case SQLITE_CONSTRAINT_FOREIGNKEY:
      return absl::NotFoundError(message);
    default:
      return absl::InvalidArgumentError(message);
  }
}

// Creates the file of a new store for its owner alone; SQLite gives the files beside it the same
// rights. A file that exists is not even opened, because closing it would release the locks of this
// process. SQLite names the error if the file cannot be created.
void MakePrivateFile(const std::string& path) {
  if (path.starts_with(':')) return;  // no file: ":memory:"
  const int created = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (created >= 0) close(created);
}

absl::Status SqlError(sqlite3* connection) {
  const char* file = sqlite3_db_filename(connection, "main");
  const bool has_file = file != nullptr && *file != '\0';
  const int code = sqlite3_extended_errcode(connection);
  const std::string message = fmt::format("store {}: {} (SQLite code {})",
                                          has_file ? fmt::format("'{}'", file) : "in memory",
                                          sqlite3_errmsg(connection), code);
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return WithReason(absl::UnavailableError(message), "STORE_BUSY");
    case SQLITE_FULL:
      return WithReason(absl::ResourceExhaustedError(message), "STORE_FULL");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return WithReason(absl::DataLossError(message), "STORE_CORRUPT");
    case SQLITE_READONLY:
      return WithReason(absl::FailedPreconditionError(message), "STORE_READ_ONLY");
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return WithReason(absl::UnavailableError(message), "STORE_IO");
    case SQLITE_CONSTRAINT:
      return ConstraintError(code, message);
    default:
      return absl::InternalError(message);
  }
}

class SqliteStatement final : public PreparedStatement {
 public:
  explicit SqliteStatement(sqlite3_stmt* prepared) : statement_(prepared) {}

  absl::Status Bind(std::span<const SqlValue> values) override {
    sqlite3_reset(get());
    sqlite3_clear_bindings(get());
    int index = 0;
    for (const SqlValue& value : values) {
      ++index;
      const int code = std::visit([&](const auto& one) { return BindOne(index, one); }, value);
      if (code != SQLITE_OK) return Error();
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Step() override {
    switch (sqlite3_step(get())) {
      case SQLITE_ROW:
        return true;
      case SQLITE_DONE:
        return false;
      default:
        return Error();
    }
  }

  absl::StatusOr<std::int64_t> Insert() override {
    if (sqlite3_step(get()) != SQLITE_DONE) return Error();
    return sqlite3_last_insert_rowid(sqlite3_db_handle(get()));
  }

  [[nodiscard]] bool IsNull(int column) const override {
    return sqlite3_column_type(get(), column) == SQLITE_NULL;
  }
  [[nodiscard]] std::int64_t Integer(int column) const override {
    return sqlite3_column_int64(get(), column);
  }
  [[nodiscard]] double Real(int column) const override {
    return sqlite3_column_double(get(), column);
  }
  [[nodiscard]] std::string Text(int column) const override {
    // The order matters: sqlite3_column_blob first, then the size of what it returned.
    const void* bytes = sqlite3_column_blob(get(), column);
    const int size = sqlite3_column_bytes(get(), column);
    if (bytes == nullptr) return {};
    return {static_cast<const char*>(bytes), static_cast<std::size_t>(size)};
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };

  [[nodiscard]] sqlite3_stmt* get() const { return statement_.get(); }
  [[nodiscard]] absl::Status Error() const { return SqlError(sqlite3_db_handle(get())); }

  int BindOne(int index, std::nullptr_t) { return sqlite3_bind_null(get(), index); }
  int BindOne(int index, std::int64_t value) { return sqlite3_bind_int64(get(), index, value); }
  int BindOne(int index, double value) { return sqlite3_bind_double(get(), index, value); }
  // A null pointer would bind NULL instead of an empty text.
  int BindOne(int index, std::string_view value) {
    return sqlite3_bind_text64(get(), index, value.empty() ? "" : value.data(), value.size(),
                               SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  int BindOne(int index, Blob value) {
    return sqlite3_bind_blob64(get(), index, value.bytes.empty() ? "" : value.bytes.data(),
                               value.bytes.size(), SQLITE_TRANSIENT);
  }

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace

void SqliteConnection::Close::operator()(sqlite3* connection) const noexcept {
  sqlite3_close_v2(connection);
}

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteConnection::Open(const std::string& path,
                                                                         ConnectionMode mode) {
  // Set once for the process: without its statistics SQLite's allocator needs no lock, for which
  // the connections of readers and the writer would wait. The call fails, without effect, if
  // something else in the process has used SQLite before.
  [[maybe_unused]] static const int configured = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  const int access = mode == ConnectionMode::kReadOnly ? SQLITE_OPEN_READONLY
                                                       : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  if (mode != ConnectionMode::kReadOnly) MakePrivateFile(path);
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, access | SQLITE_OPEN_NOMUTEX, nullptr);
  if (raw == nullptr) return absl::ResourceExhaustedError("SQLite: out of memory");
  auto connection = std::make_unique<SqliteConnection>(raw);  // it also closes what failed to open
  if (code != SQLITE_OK) return SqlError(raw);
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  return connection;
}

absl::Status SqliteConnection::Execute(const std::string& sql) {
  const int code = sqlite3_exec(sqlite_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : SqlError(sqlite_.get());
}

absl::StatusOr<std::unique_ptr<PreparedStatement>> SqliteConnection::Prepare(
    std::string_view sql, std::string_view /*number_column*/) {
  sqlite3_stmt* raw = nullptr;
  const int code =
      sqlite3_prepare_v2(sqlite_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  if (code != SQLITE_OK) return SqlError(sqlite_.get());
  return std::make_unique<SqliteStatement>(raw);
}

// IMMEDIATE, because a transaction that first reads and then writes must not get SQLITE_BUSY
// half-way.
absl::Status SqliteConnection::Begin() { return Execute("BEGIN IMMEDIATE"); }

bool SqliteConnection::InTransaction() const { return sqlite3_get_autocommit(sqlite_.get()) == 0; }

std::int64_t SqliteConnection::changed_rows() const { return sqlite3_changes64(sqlite_.get()); }

// SQLite keeps the counter of an AUTOINCREMENT table as a row of sqlite_sequence, which the first
// row of the table has made (sqlite.org/autoinc.html).
absl::StatusOr<std::int64_t> SqliteConnection::TimeMs() {
  // Days since noon of 24 November 4714 BC; 1970 began on day 2440587.5.
  return QueryInteger(this, "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)");
}

absl::StatusOr<std::int64_t> SqliteConnection::TakeNumber(std::string_view table,
                                                          std::string_view /*column*/) {
  const std::string where = fmt::format("WHERE name = '{}'", table);
  RETURN_IF_ERROR(Execute(fmt::format("UPDATE sqlite_sequence SET seq = seq + 1 {}", where)));
  return QueryInteger(this, fmt::format("SELECT seq FROM sqlite_sequence {}", where));
}

absl::Status SqliteConnection::CopyPagesInto(const std::string& path, const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const auto target, Open(path, ConnectionMode::kReadWrite));
  // All steps read the snapshot of this transaction, which in WAL mode blocks no writer.
  RETURN_IF_ERROR(Execute("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1"));
  absl::Status copied = CopySnapshotInto(*target, path, stop);
  if (const absl::Status ended = Execute("ROLLBACK"); copied.ok()) copied = ended;
  return copied;
}

absl::Status SqliteConnection::CopySnapshotInto(const SqliteConnection& target,
                                                const std::string& path,
                                                const std::stop_token& stop) {
  constexpr int kPagesBetweenStops = 4096;
  sqlite3* const raw = target.sqlite_.get();
  sqlite3_backup* backup = sqlite3_backup_init(raw, "main", sqlite_.get(), "main");
  if (backup == nullptr) return SqlError(raw);
  int step = SQLITE_OK;
  while (step == SQLITE_OK && !stop.stop_requested()) {
    step = sqlite3_backup_step(backup, kPagesBetweenStops);
  }
  const int finish = sqlite3_backup_finish(backup);
  if (finish != SQLITE_OK) return SqlError(raw);
  if (step == SQLITE_OK) return absl::CancelledError(fmt::format("backup '{}': stopped", path));
  // Finish does not report a step that met a lock, after which the copy is incomplete.
  if (step != SQLITE_DONE) {
    return WithReason(absl::UnavailableError(fmt::format("backup '{}': the store is busy", path)),
                      "STORE_BUSY");
  }
  return absl::OkStatus();
}

void SqliteConnection::KeepLogOnClose(bool keep) {
  sqlite3_db_config(sqlite_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep ? 1 : 0, nullptr);
}

}  // namespace meshwright
