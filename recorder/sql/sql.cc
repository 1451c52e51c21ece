#include "recorder/sql/sql.h"

#include <fmt/format.h>

#include "search_space/base/status.h"

namespace meshwright {

absl::StatusOr<std::int64_t> QueryInteger(Connection* connection, std::string_view sql) {
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection, sql));
  ASSIGN_OR_RETURN(const bool has_row, query.Step());
  if (!has_row) return absl::InternalError(fmt::format("no row: {}", sql));
  return query.Integer(0);
}

absl::StatusOr<std::string> QueryText(Connection* connection, std::string_view sql) {
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection, sql));
  ASSIGN_OR_RETURN(const bool has_row, query.Step());
  if (!has_row) return absl::InternalError(fmt::format("no row: {}", sql));
  return query.Text(0);
}

absl::StatusOr<Statement> Statement::Prepare(Connection* connection, std::string_view sql) {
  return PrepareInsert(connection, sql, "");
}

absl::StatusOr<Statement> Statement::PrepareInsert(Connection* connection, std::string_view sql,
                                                   std::string_view number_column) {
  auto prepared = connection->Prepare(sql, number_column);
  if (!prepared.ok()) return prepared.status();
  return Statement(*std::move(prepared));
}

absl::Status Statement::Run() {
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, Step());
    if (!has_row) return absl::OkStatus();
  }
}

std::optional<std::int64_t> Statement::OptionalInteger(int column) const {
  if (prepared_->IsNull(column)) return std::nullopt;
  return Integer(column);
}

std::optional<double> Statement::OptionalReal(int column) const {
  if (prepared_->IsNull(column)) return std::nullopt;
  return Real(column);
}

std::optional<std::string> Statement::OptionalText(int column) const {
  if (prepared_->IsNull(column)) return std::nullopt;
  return Text(column);
}

absl::StatusOr<Transaction> Transaction::Begin(Connection* connection) {
  const bool is_nested = connection->InTransaction();
  RETURN_IF_ERROR(is_nested ? connection->Execute("SAVEPOINT nested") : connection->Begin());
  return Transaction(connection, is_nested);
}

Transaction::Transaction(Transaction&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)), is_nested_(other.is_nested_) {}

Transaction::~Transaction() {
  if (connection_ == nullptr) return;
  // Has no effect if the database itself has rolled back everything, as after a full disk.
  connection_->Execute(is_nested_ ? "ROLLBACK TO nested; RELEASE nested" : "ROLLBACK")
      .IgnoreError();
}

absl::Status Transaction::Commit() {
  RETURN_IF_ERROR(is_nested_ ? connection_->Execute("RELEASE nested") : connection_->Commit());
  connection_ = nullptr;
  return absl::OkStatus();
}

}  // namespace meshwright
