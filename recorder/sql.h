#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace meshwright {

// A thin wrapper of SQLite's C API with ownership, absl::Status instead of codes, and typed
// parameters and columns. It knows no tables.

struct CloseConnection {
  void operator()(sqlite3* connection) const noexcept;
};
using Connection = std::unique_ptr<sqlite3, CloseConnection>;

enum class ConnectionMode { kReadOnly, kReadWrite };

// Opens a connection; a writer's creates the file. The connection waits up to five seconds for
// other connections' locks.
absl::StatusOr<Connection> OpenConnection(const std::string& path, ConnectionMode mode);

// Returns the connection's last error: a canonical code, a reason (STORE_BUSY, STORE_FULL,
// STORE_CORRUPT, STORE_READ_ONLY, STORE_IO) and a message that names the file.
absl::Status SqlError(sqlite3* connection);

// Runs statements that take no parameters; ignores their rows.
absl::Status Execute(sqlite3* connection, const std::string& sql);

// Returns the first column of the first row of a query.
absl::StatusOr<std::int64_t> QueryInteger(sqlite3* connection, std::string_view sql);
absl::StatusOr<std::string> QueryText(sqlite3* connection, std::string_view sql);

// Marks a bound value as BLOB; plain text binds as TEXT.
struct Blob {
  std::string_view bytes = {};
};

// A prepared statement. Bind all parameters, then Step through the rows or Run; the statement can
// be bound and run again. Columns count from 0 and can be read only while the last Step returned
// true.
class Statement {
 public:
  static absl::StatusOr<Statement> Prepare(sqlite3* connection, std::string_view sql);

  // Resets the statement and binds parameters ?1, ?2, ... in order.
  template <typename... Values>
  absl::Status Bind(const Values&... values) {
    Reset();
    int index = 0;
    const bool bound = (true && ... && BindOne(++index, values));
    return bound ? absl::OkStatus() : Error();
  }

  absl::StatusOr<bool> Step();  // returns false if there are no more rows
  absl::Status Run();           // runs to the end and ignores rows

  [[nodiscard]] std::int64_t Integer(int column) const;
  [[nodiscard]] double Real(int column) const;
  [[nodiscard]] std::string Text(int column) const;  // TEXT or BLOB
  [[nodiscard]] std::optional<std::int64_t> OptionalInteger(int column) const;
  [[nodiscard]] std::optional<double> OptionalReal(int column) const;
  [[nodiscard]] std::optional<std::string> OptionalText(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept;
  };

  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  void Reset();
  absl::Status Error() const;
  [[nodiscard]] bool IsNull(int column) const;
  bool BindOne(int index, std::nullopt_t value);
  bool BindOne(int index, bool value);
  bool BindOne(int index, int value);
  bool BindOne(int index, std::int64_t value);
  bool BindOne(int index, double value);
  bool BindOne(int index, std::string_view value);
  bool BindOne(int index, const std::string& value);
  bool BindOne(int index, Blob value);
  template <typename Value>
  bool BindOne(int index, const std::optional<Value>& value) {
    return value.has_value() ? BindOne(index, *value) : BindOne(index, std::nullopt);
  }

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// Runs a statement once.
template <typename... Values>
absl::Status Run(sqlite3* connection, std::string_view sql, const Values&... values) {
  auto statement = Statement::Prepare(connection, sql);
  if (!statement.ok()) return statement.status();
  const absl::Status bound = statement->Bind(values...);
  return bound.ok() ? statement->Run() : bound;
}

// A write transaction that is rolled back unless it is committed. Within another transaction it is
// a savepoint: a rollback undoes only its own changes, and they become durable when the outer
// transaction is committed.
class Transaction {
 public:
  static absl::StatusOr<Transaction> Begin(sqlite3* connection);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  absl::Status Commit();

 private:
  Transaction(sqlite3* connection, bool is_nested)
      : connection_(connection), is_nested_(is_nested) {}
  sqlite3* connection_;  // null if committed or moved from
  bool is_nested_;
};

}  // namespace meshwright
