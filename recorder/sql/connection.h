#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwright {

// The interface between the recorder and a database. sqlite.h and postgres.h implement it; sql.h is
// how the recorder uses it. It knows no tables.

// Marks a bound value as BLOB; plain text binds as TEXT.
struct Blob {
  std::string_view bytes = {};
};

// The value of a parameter; a null pointer is NULL.
using SqlValue = std::variant<std::nullptr_t, std::int64_t, double, std::string_view, Blob>;

// A statement that is prepared once and run any number of times. Columns count from 0 and can be
// read only while the last Step returned true.
class PreparedStatement {
 public:
  virtual ~PreparedStatement() = default;

  // Resets the statement and binds parameters ?1, ?2, ... in order; copies the values.
  virtual absl::Status Bind(std::span<const SqlValue> values) = 0;
  virtual absl::StatusOr<bool> Step() = 0;  // returns false if there are no more rows
  // Runs an INSERT of one row to its end and returns the number that the database gave to the row.
  virtual absl::StatusOr<std::int64_t> Insert() = 0;

  [[nodiscard]] virtual bool IsNull(int column) const = 0;
  [[nodiscard]] virtual std::int64_t Integer(int column) const = 0;
  [[nodiscard]] virtual double Real(int column) const = 0;
  [[nodiscard]] virtual std::string Text(int column) const = 0;  // TEXT or BLOB
};

// A connection to a database, used by one thread at a time. Statements are written in SQLite's SQL
// (docs/store/postgresql.md names the subset that both databases run), and errors are a canonical
// code, a reason (STORE_BUSY, STORE_FULL, STORE_CORRUPT, STORE_READ_ONLY, STORE_IO) and a message
// that names the store. ALREADY_EXISTS: a row with the key exists; NOT_FOUND: a row refers to none.
class Connection {
 public:
  virtual ~Connection() = default;

  // Runs statements that take no parameters; ignores their rows.
  virtual absl::Status Execute(const std::string& sql) = 0;

  // Prepares one statement. An INSERT into a table whose rows the database numbers may state the
  // column of the numbers, for PreparedStatement::Insert.
  virtual absl::StatusOr<std::unique_ptr<PreparedStatement>> Prepare(
      std::string_view sql, std::string_view number_column = "") = 0;

  // Begins a write transaction, after those of all other writers have ended.
  virtual absl::Status Begin() = 0;
  virtual absl::Status Commit() = 0;
  // Returns false also if the database has rolled the transaction back by itself.
  [[nodiscard]] virtual bool InTransaction() const = 0;

  // Returns the number of rows that the last INSERT, UPDATE or DELETE changed.
  [[nodiscard]] virtual std::int64_t changed_rows() const = 0;

  // Takes the next number of a table, in which at least one row was inserted before.
  virtual absl::StatusOr<std::int64_t> TakeNumber(std::string_view table,
                                                  std::string_view column) = 0;

  // Returns the time of the database's own clock, in Unix milliseconds, UTC. All processes that
  // share a database measure leases by it.
  virtual absl::StatusOr<std::int64_t> TimeMs() = 0;
};

}  // namespace meshwright
