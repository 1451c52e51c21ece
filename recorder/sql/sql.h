#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/sql/connection.h"

namespace meshwright {

// Statements and transactions on a Connection, with ownership, typed parameters and columns.

// Returns the first column of the first row of a query.
absl::StatusOr<std::int64_t> QueryInteger(Connection* connection, std::string_view sql);
absl::StatusOr<std::string> QueryText(Connection* connection, std::string_view sql);

// A prepared statement. Bind all parameters, then Step through the rows or Run; the statement can
// be bound and run again. Columns count from 0 and can be read only while the last Step returned
// true.
class Statement {
 public:
  static absl::StatusOr<Statement> Prepare(Connection* connection, std::string_view sql);
  // Prepares the INSERT of a row that the database numbers in this column.
  static absl::StatusOr<Statement> PrepareInsert(Connection* connection, std::string_view sql,
                                                 std::string_view number_column);

  // Resets the statement and binds parameters ?1, ?2, ... in order.
  template <typename... Values>
  absl::Status Bind(const Values&... values) {
    const std::array<SqlValue, sizeof...(Values)> all = {ToValue(values)...};
    return prepared_->Bind(all);
  }

  // Returns false if there are no more rows.
  absl::StatusOr<bool> Step() { return prepared_->Step(); }
  absl::Status Run();  // runs to the end and ignores rows
  // Runs a statement of PrepareInsert and returns the number of the row.
  absl::StatusOr<std::int64_t> Insert() { return prepared_->Insert(); }

  [[nodiscard]] std::int64_t Integer(int column) const { return prepared_->Integer(column); }
  [[nodiscard]] double Real(int column) const { return prepared_->Real(column); }
  [[nodiscard]] std::string Text(int column) const { return prepared_->Text(column); }
  [[nodiscard]] std::optional<std::int64_t> OptionalInteger(int column) const;
  [[nodiscard]] std::optional<double> OptionalReal(int column) const;
  [[nodiscard]] std::optional<std::string> OptionalText(int column) const;

 private:
  explicit Statement(std::unique_ptr<PreparedStatement> prepared)
      : prepared_(std::move(prepared)) {}
  static SqlValue ToValue(std::nullopt_t) { return nullptr; }
  static SqlValue ToValue(bool value) { return std::int64_t{value}; }
  static SqlValue ToValue(int value) { return std::int64_t{value}; }
  static SqlValue ToValue(std::int64_t value) { return value; }
  static SqlValue ToValue(double value) { return value; }
  static SqlValue ToValue(std::string_view value) { return value; }
  static SqlValue ToValue(const std::string& value) { return std::string_view(value); }
  static SqlValue ToValue(Blob value) { return value; }
  template <typename Optional>
  static SqlValue ToValue(const std::optional<Optional>& value) {
    return value.has_value() ? ToValue(*value) : ToValue(std::nullopt);
  }

  std::unique_ptr<PreparedStatement> prepared_;
};

// Runs a statement once.
template <typename... Values>
absl::Status Run(Connection* connection, std::string_view sql, const Values&... values) {
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
  static absl::StatusOr<Transaction> Begin(Connection* connection);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  absl::Status Commit();

 private:
  Transaction(Connection* connection, bool is_nested)
      : connection_(connection), is_nested_(is_nested) {}
  Connection* connection_;  // null if committed or moved from
  bool is_nested_;
};

}  // namespace meshwright
