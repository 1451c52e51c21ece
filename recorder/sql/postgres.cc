#include "recorder/sql/postgres.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include "recorder/sql/sql.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

// The types of columns that can be read, by their object ids (pg_type.dat of PostgreSQL).
enum Type : Oid {
  kBool = 16,
  kBytes = 17,
  kInt64 = 20,
  kInt16 = 21,
  kInt32 = 23,
  kText = 25,
  kFloat64 = 701,
};

// The statements that a connection keeps prepared: more than the recorder has, without lists with
// all combinations of filters.
constexpr std::size_t kMaxPrepared = 256;

// A writer waits no longer than this for the others. One that stops within its transaction, perhaps
// with its machine, keeps them waiting no longer either. An acknowledged transaction must be on the
// server's disk; stricter settings than that remain.
constexpr char kBeginSession[] = R"sql(
SET lock_timeout = '10s';
SET idle_in_transaction_session_timeout = '30s';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
SET jit = off;
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off';
)sql";

// A lock has a number: which of the two it is, and the schema, because a database may hold several
// stores. The first is "MWST", as in the header of a file, and the second the number after it.
constexpr char kBegin[] = R"sql(
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock(
  (1297568596::bigint << 32) | current_schema()::regnamespace::oid::bigint);
)sql";
constexpr char kTakeRight[] = R"sql(
SELECT pg_try_advisory_lock_shared(
  (1297568597::bigint << 32) | current_schema()::regnamespace::oid::bigint))sql";
constexpr char kHolderOfRight[] = R"sql(
SELECT application_name || coalesce(' at ' || host(client_addr), '') || ', process ' || pid
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND classid = 1297568597
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND objid = current_schema()::regnamespace::oid AND granted)sql";
constexpr std::chrono::milliseconds kPollInterval(50);

PostgresParameter ParameterOf(std::nullptr_t) { return {}; }
PostgresParameter ParameterOf(std::int64_t value) { return {.bytes = fmt::format("{}", value)}; }
PostgresParameter ParameterOf(double value) {
  if (std::isnan(value)) return {};  // as SQLite does, so that no comparison meets one
  return {.bytes = fmt::format("{}", value)};
}
PostgresParameter ParameterOf(std::string_view value) {
  return {.bytes = std::string(value), .is_binary = true};
}
PostgresParameter ParameterOf(Blob value) { return ParameterOf(value.bytes); }

// Reads a number in the network's order of bytes.
template <typename Number>
Number ReadNumber(const pg_result* result, int row, int column) {
  std::array<char, sizeof(Number)> bytes = {};
  std::memcpy(bytes.data(), PQgetvalue(result, row, column), bytes.size());
  if constexpr (std::endian::native == std::endian::little) std::ranges::reverse(bytes);
  return std::bit_cast<Number>(bytes);
}

class PostgresStatement final : public PreparedStatement {
 public:
  PostgresStatement(PostgresConnection& connection, PostgresText text)
      : connection_(connection), text_(std::move(text)) {}

  absl::Status Bind(std::span<const SqlValue> values) override {
    result_.reset();
    parameters_.clear();
    for (const int number : text_.parameters) {
      if (number < 1 || number > std::ssize(values)) {
        return absl::InternalError(fmt::format("?{} is not bound: {}", number, text_.sql));
      }
      parameters_.push_back(std::visit([](const auto& value) { return ParameterOf(value); },
                                       values[static_cast<std::size_t>(number - 1)]));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Step() override {
    if (result_ == nullptr) {
      ASSIGN_OR_RETURN(result_, connection_.Run(text_.sql, parameters_));
      row_ = -1;
    }
    if (row_ + 1 >= PQntuples(result_.get())) return false;
    ++row_;
    return true;
  }

  absl::StatusOr<std::int64_t> Insert() override {
    ASSIGN_OR_RETURN(const bool has_row, Step());
    if (!has_row) return absl::InternalError(fmt::format("no number: {}", text_.sql));
    return Integer(0);
  }

  [[nodiscard]] bool IsNull(int column) const override {
    return PQgetisnull(result_.get(), row_, column) != 0;
  }

  [[nodiscard]] std::int64_t Integer(int column) const override {
    if (IsNull(column)) return 0;
    switch (PQftype(result_.get(), column)) {
      case kBool:
        return ReadNumber<std::int8_t>(result_.get(), row_, column);
      case kInt16:
        return ReadNumber<std::int16_t>(result_.get(), row_, column);
      case kInt32:
        return ReadNumber<std::int32_t>(result_.get(), row_, column);
      case kInt64:
        return ReadNumber<std::int64_t>(result_.get(), row_, column);
      default:
        return 0;
    }
  }

  [[nodiscard]] double Real(int column) const override {
    if (IsNull(column)) return 0;
    if (PQftype(result_.get(), column) != kFloat64) return static_cast<double>(Integer(column));
    return ReadNumber<double>(result_.get(), row_, column);
  }

  [[nodiscard]] std::string Text(int column) const override {
    const int size = PQgetlength(result_.get(), row_, column);
    return {PQgetvalue(result_.get(), row_, column), static_cast<std::size_t>(size)};
  }

 private:
  PostgresConnection& connection_;
  const PostgresText text_;
  std::vector<PostgresParameter> parameters_;
  PostgresConnection::Result result_;  // null: to be run
  int row_ = -1;
};

// A column of another type would be misread.
absl::Status CheckTypes(const pg_result* result) {
  for (int column = 0; column < PQnfields(result); ++column) {
    switch (PQftype(result, column)) {
      case kBool:
      case kBytes:
      case kInt64:
      case kInt16:
      case kInt32:
      case kText:
      case kFloat64:
        continue;
      default:
        return absl::InternalError(fmt::format("column '{}' has the type {}, which is not read",
                                               PQfname(result, column), PQftype(result, column)));
    }
  }
  return absl::OkStatus();
}

// PostgreSQL's codes (Appendix A of its manual) are five characters, the first two being a class.
absl::Status StatusOf(std::string_view code, const std::string& message) {
  if (code == "23505") return absl::AlreadyExistsError(message);
  if (code == "23503") return absl::NotFoundError(message);
  if (code == "25006" || code == "42501") {
    return WithReason(absl::FailedPreconditionError(message), "STORE_READ_ONLY");
  }
  if (code == "53100") return WithReason(absl::ResourceExhaustedError(message), "STORE_FULL");
  // Locks, cancelled statements, deadlocks, and too many connections or too little memory.
  if (code == "55P03" || code == "57014" || code.starts_with("40") || code.starts_with("53")) {
    return WithReason(absl::UnavailableError(message), "STORE_BUSY");
  }
  if (code == "XX001" || code == "XX002") {
    return WithReason(absl::DataLossError(message), "STORE_CORRUPT");
  }
  // Values that a column does not take, and constraints.
  if (code.starts_with("22") || code.starts_with("23")) return absl::InvalidArgumentError(message);
  // Connections, sessions that the server ends, and its disks.
  const bool is_io = code.empty() || code.starts_with("08") || code.starts_with("28") ||
                     code.starts_with("57") || code.starts_with("58") || code == "25P03";
  return is_io ? WithReason(absl::UnavailableError(message), "STORE_IO")
               : absl::InternalError(message);
}

// Returns a message of libpq as one line.
std::string OneLine(std::string_view text) {
  std::string line(text.substr(0, text.find_last_not_of(" \n") + 1));
  for (std::size_t at = line.find('\n'); at != line.npos; at = line.find('\n', at)) {
    line.replace(at, 1, "; ");
  }
  return line;
}

struct FreeOptions {
  void operator()(PQconninfoOption* options) const noexcept { PQconninfoFree(options); }
};

// The messages do not show the address, because it may hold a password.
absl::Status CheckAddress(const std::string& address) {
  char* error = nullptr;
  const std::unique_ptr<PQconninfoOption, FreeOptions> options(
      PQconninfoParse(address.c_str(), &error));
  PQfreemem(error);
  if (options == nullptr) {
    return absl::InvalidArgumentError(
        "the store's address cannot be read; must be a file, or "
        "postgresql://[USER@][HOST][:PORT][/DATABASE][?NAME=VALUE[&...]] with names of libpq");
  }
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    const std::string_view name = option->keyword;
    if (option->val == nullptr || (name != "password" && name != "sslpassword")) continue;
    return absl::InvalidArgumentError(fmt::format(
        "the store's address holds a {}, which all users of this machine could see; keep it in a "
        "file of passwords instead (~/.pgpass, or passfile=FILE in the address)",
        name));
  }
  return absl::OkStatus();
}

pg_conn* Connect(const PostgresOptions& options) {
  // The address replaces the values before it, and those after it replace the address's. A server
  // whose machine is gone is noticed within half a minute.
  const std::array<const char*, 9> names = {
      "connect_timeout",           "keepalives_idle", "keepalives_interval", "tcp_user_timeout",
      "fallback_application_name", "dbname",          "client_encoding",     nullptr};
  const std::array<const char*, 9> values = {
      "10", "10", "5", "30000", options.who.c_str(), options.address.c_str(), "UTF8", nullptr};
  return PQconnectdbParams(names.data(), values.data(), /*expand_dbname=*/1);
}

}  // namespace

bool IsPostgresAddress(std::string_view address) {
  return address.starts_with("postgresql://") || address.starts_with("postgres://");
}

void PostgresConnection::Finish::operator()(pg_conn* connection) const noexcept {
  PQfinish(connection);
}

void PostgresConnection::ClearResult::operator()(pg_result* result) const noexcept {
  PQclear(result);
}

absl::StatusOr<std::unique_ptr<PostgresConnection>> PostgresConnection::Open(
    const PostgresOptions& options) {
  RETURN_IF_ERROR(CheckAddress(options.address));
  pg_conn* const raw = Connect(options);
  if (raw == nullptr) return absl::ResourceExhaustedError("libpq: out of memory");
  auto connection = std::make_unique<PostgresConnection>(options, raw);
  RETURN_IF_ERROR(connection->BeginSession(options.wait));
  return connection;
}

PostgresConnection::PostgresConnection(PostgresOptions options, pg_conn* connection)
    : options_(std::move(options)), connection_(connection) {}

bool PostgresConnection::IsLost() const { return PQstatus(connection_.get()) != CONNECTION_OK; }

absl::Status PostgresConnection::Error(const pg_result* result) const {
  const char* const code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* const primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  if (code == nullptr || primary == nullptr) {
    return StatusOf("", fmt::format("store '{}': {}", options_.address,
                                    OneLine(PQerrorMessage(connection_.get()))));
  }
  return StatusOf(code, fmt::format("store '{}': {} (PostgreSQL code {})", options_.address,
                                    OneLine(primary), code));
}

absl::Status PostgresConnection::BeginSession(std::chrono::milliseconds wait) {
  names_.clear();
  is_in_session_ = false;
  if (IsLost()) return Error(nullptr);
  PQsetNoticeProcessor(
      connection_.get(), [](void*, const char*) {}, nullptr);
  RETURN_IF_ERROR(Execute(kBeginSession));
  RETURN_IF_ERROR(Execute(
      fmt::format("SET default_transaction_read_only = {}", options_.read_only ? "on" : "off")));
  if (options_.takes_right) RETURN_IF_ERROR(TakeRight(wait));
  is_in_session_ = true;
  return absl::OkStatus();
}

// Nobody waits for a right that was lost: a new holder keeps it.
absl::Status PostgresConnection::Reconnect() {
  PQreset(connection_.get());
  return BeginSession(std::chrono::milliseconds(0));
}

// Counts its sleeps, because nothing in this folder reads a clock.
absl::Status PostgresConnection::TakeRight(std::chrono::milliseconds wait) {
  while (true) {
    ASSIGN_OR_RETURN(const std::int64_t is_taken, QueryInteger(this, kTakeRight));
    if (is_taken != 0) return absl::OkStatus();
    if (wait.count() <= 0) break;
    const auto nap = std::min(kPollInterval, wait);
    usleep(static_cast<useconds_t>(nap.count() * 1000));
    wait -= nap;
  }
  return WithReason(
      absl::UnavailableError(fmt::format("store '{}': its studies are run by {}, a program of an "
                                         "earlier version that does not share "
                                         "them; stop it, or name another store with --db",
                                         options_.address, HolderOfRight())),
      "STORE_IN_USE");
}

std::string PostgresConnection::HolderOfRight() {
  const auto holder = QueryText(this, kHolderOfRight);
  return holder.value_or("another process");  // which has just ended, if there is no row
}

absl::Status PostgresConnection::Execute(const std::string& sql) {
  const Result result(PQexec(connection_.get(), sql.c_str()));
  const ExecStatusType status = PQresultStatus(result.get());
  const bool has_run = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
  return has_run ? absl::OkStatus() : Error(result.get());
}

absl::StatusOr<std::unique_ptr<PreparedStatement>> PostgresConnection::Prepare(
    std::string_view sql, std::string_view number_column) {
  PostgresText text = TranslateStatement(sql);
  if (!number_column.empty()) text.sql += fmt::format(" RETURNING {}", number_column);
  return std::make_unique<PostgresStatement>(*this, std::move(text));
}

absl::Status PostgresConnection::Begin() {
  absl::Status begun;
  if (is_in_session_) begun = Execute(kBegin);
  if (!is_in_session_ || IsLost()) {  // nothing was changed yet
    RETURN_IF_ERROR(Reconnect());
    begun = Execute(kBegin);
  }
  if (!begun.ok()) Execute("ROLLBACK").IgnoreError();
  return begun;
}

absl::Status PostgresConnection::Commit() {
  const Result result(PQexec(connection_.get(), "COMMIT"));
  if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) return Error(result.get());
  // PostgreSQL ends a transaction in which a statement has failed in this way, and reports no
  // error.
  if (std::string_view(PQcmdStatus(result.get())) == "COMMIT") return absl::OkStatus();
  return absl::InternalError(fmt::format(
      "store '{}': the transaction was rolled back, because one of its statements failed",
      options_.address));
}

bool PostgresConnection::InTransaction() const {
  const PGTransactionStatusType status = PQtransactionStatus(connection_.get());
  return status != PQTRANS_IDLE && status != PQTRANS_UNKNOWN;
}

absl::StatusOr<std::int64_t> PostgresConnection::TakeNumber(std::string_view table,
                                                            std::string_view column) {
  return QueryInteger(
      this, fmt::format("SELECT nextval(pg_get_serial_sequence('{}', '{}'))", table, column));
}

absl::StatusOr<std::int64_t> PostgresConnection::TimeMs() {
  // Unlike now(), which is the time at which the transaction began.
  return QueryInteger(this,
                      "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)");
}

absl::StatusOr<PostgresConnection::Result> PostgresConnection::Run(
    const std::string& sql, std::span<const PostgresParameter> parameters) {
  // A query that has changed nothing can run again on a new connection.
  const bool may_repeat = options_.read_only && !InTransaction();
  Result result = Try(sql, parameters);
  if (IsLost() && may_repeat) {
    RETURN_IF_ERROR(Reconnect());
    result = Try(sql, parameters);
  }
  const ExecStatusType status = PQresultStatus(result.get());
  if (status == PGRES_TUPLES_OK) {
    RETURN_IF_ERROR(CheckTypes(result.get()));
    return result;
  }
  if (status != PGRES_COMMAND_OK) return Error(result.get());
  const std::string_view count = PQcmdTuples(result.get());
  changed_rows_ = 0;
  std::from_chars(count.data(), count.data() + count.size(), changed_rows_);
  return result;
}

PostgresConnection::Result PostgresConnection::Try(const std::string& sql,
                                                   std::span<const PostgresParameter> parameters) {
  if (const auto known = names_.find(sql); known != names_.end()) {
    return TryPrepared(known->second, parameters);
  }
  if (names_.size() >= kMaxPrepared) {
    Result forgotten(PQexec(connection_.get(), "DEALLOCATE ALL"));
    if (PQresultStatus(forgotten.get()) != PGRES_COMMAND_OK) return forgotten;
    names_.clear();
  }
  const std::string name = fmt::format("s{}", names_.size());
  // The server finds the types of the parameters by itself.
  Result prepared(PQprepare(connection_.get(), name.c_str(), sql.c_str(), 0, nullptr));
  if (PQresultStatus(prepared.get()) != PGRES_COMMAND_OK) return prepared;
  names_.emplace(sql, name);
  return TryPrepared(name, parameters);
}

PostgresConnection::Result PostgresConnection::TryPrepared(
    const std::string& name, std::span<const PostgresParameter> parameters) {
  std::vector<const char*> values;
  std::vector<int> lengths;
  std::vector<int> formats;
  for (const PostgresParameter& parameter : parameters) {
    values.push_back(parameter.bytes.has_value() ? parameter.bytes->c_str() : nullptr);
    lengths.push_back(static_cast<int>(parameter.bytes.value_or("").size()));
    formats.push_back(parameter.is_binary ? 1 : 0);
  }
  return Result(PQexecPrepared(connection_.get(), name.c_str(), static_cast<int>(values.size()),
                               values.data(), lengths.data(), formats.data(),
                               /*resultFormat=*/1));
}

}  // namespace meshwright
