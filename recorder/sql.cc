#include "recorder/sql.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

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

}  // namespace

void CloseConnection::operator()(sqlite3* connection) const noexcept {
  sqlite3_close_v2(connection);
}

absl::StatusOr<Connection> OpenConnection(const std::string& path, ConnectionMode mode) {
  // Set once for the process: without its statistics SQLite's allocator needs no lock, for which
  // the connections of readers and the writer would wait. The call fails, without effect, if
  // something else in the process has used SQLite before.
  [[maybe_unused]] static const int configured = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  const int access = mode == ConnectionMode::kReadOnly ? SQLITE_OPEN_READONLY
                                                       : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  if (mode != ConnectionMode::kReadOnly) MakePrivateFile(path);
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, access | SQLITE_OPEN_NOMUTEX, nullptr);
  Connection connection(raw);  // set even after a failure, unless memory ran out
  if (connection == nullptr) return absl::ResourceExhaustedError("SQLite: out of memory");
  if (code != SQLITE_OK) return SqlError(raw);
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  return connection;
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

absl::Status Execute(sqlite3* connection, const std::string& sql) {
  const int code = sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : SqlError(connection);
}

absl::StatusOr<std::int64_t> QueryInteger(sqlite3* connection, std::string_view sql) {
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection, sql));
  ASSIGN_OR_RETURN(const bool has_row, query.Step());
  if (!has_row) return absl::InternalError(fmt::format("no row: {}", sql));
  return query.Integer(0);
}

absl::StatusOr<std::string> QueryText(sqlite3* connection, std::string_view sql) {
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection, sql));
  ASSIGN_OR_RETURN(const bool has_row, query.Step());
  if (!has_row) return absl::InternalError(fmt::format("no row: {}", sql));
  return query.Text(0);
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const noexcept {
  sqlite3_finalize(statement);
}

absl::StatusOr<Statement> Statement::Prepare(sqlite3* connection, std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code =
      sqlite3_prepare_v2(connection, sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  if (code != SQLITE_OK) return SqlError(connection);
  return Statement(raw);
}

absl::StatusOr<bool> Statement::Step() {
  switch (sqlite3_step(statement_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return Error();
  }
}

absl::Status Statement::Run() {
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, Step());
    if (!has_row) return absl::OkStatus();
  }
}

std::int64_t Statement::Integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::Real(int column) const { return sqlite3_column_double(statement_.get(), column); }

std::string Statement::Text(int column) const {
  // The order matters: sqlite3_column_blob first, then the size of what it returned.
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(size)};
}

std::optional<std::int64_t> Statement::OptionalInteger(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Integer(column);
}

std::optional<double> Statement::OptionalReal(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Real(column);
}

std::optional<std::string> Statement::OptionalText(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Text(column);
}

void Statement::Reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

absl::Status Statement::Error() const { return SqlError(sqlite3_db_handle(statement_.get())); }

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

bool Statement::BindOne(int index, std::nullopt_t) {
  return sqlite3_bind_null(statement_.get(), index) == SQLITE_OK;
}

bool Statement::BindOne(int index, bool value) { return BindOne(index, value ? 1 : 0); }

bool Statement::BindOne(int index, int value) {
  return sqlite3_bind_int(statement_.get(), index, value) == SQLITE_OK;
}

bool Statement::BindOne(int index, std::int64_t value) {
  return sqlite3_bind_int64(statement_.get(), index, value) == SQLITE_OK;
}

bool Statement::BindOne(int index, double value) {
  return sqlite3_bind_double(statement_.get(), index, value) == SQLITE_OK;
}

bool Statement::BindOne(int index, std::string_view value) {
  // A null pointer would bind NULL instead of an empty text.
  return sqlite3_bind_text64(statement_.get(), index, value.empty() ? "" : value.data(),
                             value.size(), SQLITE_TRANSIENT, SQLITE_UTF8) == SQLITE_OK;
}

bool Statement::BindOne(int index, const std::string& value) {
  return BindOne(index, std::string_view(value));
}

bool Statement::BindOne(int index, Blob value) {
  return sqlite3_bind_blob64(statement_.get(), index, value.bytes.empty() ? "" : value.bytes.data(),
                             value.bytes.size(), SQLITE_TRANSIENT) == SQLITE_OK;
}

absl::StatusOr<Transaction> Transaction::Begin(sqlite3* connection) {
  const bool is_nested = sqlite3_get_autocommit(connection) == 0;
  // IMMEDIATE, because a transaction that first reads and then writes must not get SQLITE_BUSY
  // half-way.
  RETURN_IF_ERROR(Execute(connection, is_nested ? "SAVEPOINT nested" : "BEGIN IMMEDIATE"));
  return Transaction(connection, is_nested);
}

Transaction::Transaction(Transaction&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)), is_nested_(other.is_nested_) {}

Transaction::~Transaction() {
  if (connection_ == nullptr) return;
  // Has no effect if SQLite itself has rolled back everything, as after a full disk.
  sqlite3_exec(connection_, is_nested_ ? "ROLLBACK TO nested; RELEASE nested" : "ROLLBACK", nullptr,
               nullptr, nullptr);
}

absl::Status Transaction::Commit() {
  RETURN_IF_ERROR(Execute(connection_, is_nested_ ? "RELEASE nested" : "COMMIT"));
  connection_ = nullptr;
  return absl::OkStatus();
}

}  // namespace meshwright
