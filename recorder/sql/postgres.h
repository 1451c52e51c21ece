#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/postgres_text.h"

struct pg_conn;
struct pg_result;

namespace meshwright {

// Returns true for the addresses that libpq takes: postgresql://... and postgres://...
bool IsPostgresAddress(std::string_view address);

struct PostgresOptions {
  std::string address = {};
  bool read_only = false;
  std::string who = {};  // the name of the application, as the server's administrator sees it
  // Takes the right of the store that connections share as long as they last, and that a server of
  // before schema version 14 holds alone.
  bool takes_right = false;
  std::chrono::milliseconds wait = std::chrono::milliseconds(0);  // for that right
};

// A parameter as libpq takes it; no bytes: NULL.
struct PostgresParameter {
  std::optional<std::string> bytes = {};
  bool is_binary = false;
};

// A connection to a PostgreSQL server. Writers take turns by a lock of the store, which each
// transaction takes as it begins and the server releases as it ends, so that a writer sees all that
// earlier ones stored. If the server has closed the connection, the next transaction opens it anew,
// and so does the next query of a reader. A connection that held the store's right takes it again;
// if another has it alone by now, nothing is written.
class PostgresConnection final : public Connection {
 public:
  // INVALID_ARGUMENT if the address cannot be read or holds a password, because all users of the
  // machine can see an address in the list of processes. STORE_IO if the server does not answer.
  // STORE_IN_USE if another connection holds the right alone.
  static absl::StatusOr<std::unique_ptr<PostgresConnection>> Open(const PostgresOptions& options);
  PostgresConnection(PostgresOptions options, pg_conn* connection);

  absl::Status Execute(const std::string& sql) override;
  absl::StatusOr<std::unique_ptr<PreparedStatement>> Prepare(
      std::string_view sql, std::string_view number_column) override;
  absl::Status Begin() override;
  absl::Status Commit() override;
  [[nodiscard]] bool InTransaction() const override;
  [[nodiscard]] std::int64_t changed_rows() const override { return changed_rows_; }
  absl::StatusOr<std::int64_t> TakeNumber(std::string_view table, std::string_view column) override;
  absl::StatusOr<std::int64_t> TimeMs() override;

  struct ClearResult {
    void operator()(pg_result* result) const noexcept;
  };
  using Result = std::unique_ptr<pg_result, ClearResult>;

  // Runs a statement and returns all its rows, in binary form.
  absl::StatusOr<Result> Run(const std::string& sql, std::span<const PostgresParameter> parameters);

 private:
  struct Finish {
    void operator()(pg_conn* connection) const noexcept;
  };

  [[nodiscard]] bool IsLost() const;
  [[nodiscard]] absl::Status Error(const pg_result* result) const;
  absl::Status BeginSession(std::chrono::milliseconds wait);
  absl::Status Reconnect();
  absl::Status TakeRight(std::chrono::milliseconds wait);
  [[nodiscard]] std::string HolderOfRight();
  Result Try(const std::string& sql, std::span<const PostgresParameter> parameters);
  Result TryPrepared(const std::string& name, std::span<const PostgresParameter> parameters);

  const PostgresOptions options_;
  std::unique_ptr<pg_conn, Finish> connection_;
  std::map<std::string, std::string, std::less<>> names_;  // of prepared statements, by their text
  std::int64_t changed_rows_ = 0;
  bool is_in_session_ = false;  // false: to be opened anew
};

}  // namespace meshwright
