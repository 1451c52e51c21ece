#include "recorder/recorder.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "recorder/sql/postgres.h"
#include "recorder/sql/sql.h"
#include "recorder/sql/sqlite.h"
#include "recorder/store/file_store.h"
#include "recorder/store/postgres_store.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

absl::Status RunNested(Connection* connection, const std::function<absl::Status()>& call) {
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

bool IsStoreFile(std::string_view address) {
  return !address.empty() && address != ":memory:" && !IsPostgresAddress(address);
}

absl::StatusOr<Recorder> Recorder::Open(const OpenOptions& options) {
  auto opened =
      IsPostgresAddress(options.path) ? OpenPostgresStore(options) : OpenFileStore(options);
  if (!opened.ok()) return opened.status();
  return Recorder(*std::move(opened));
}

Recorder::Recorder(OpenedStore opened)
    : lock_(std::move(opened.lock)),
      connection_(std::move(opened.connection)),
      address_(std::move(opened.address)) {}

Recorder& Recorder::operator=(Recorder&& other) noexcept {
  // The old connection must close before the old lock is released.
  connection_ = std::move(other.connection_);
  lock_ = std::move(other.lock_);
  address_ = std::move(other.address_);
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
    while (next < calls.size() && connection_->InTransaction()) {
      results[next] = RunNested(connection_.get(), [&] { return calls[next](*this); });
      ++next;
    }
    const bool is_whole = connection_->InTransaction();
    const absl::Status committed = is_whole ? transaction->Commit() : RolledBack(results[next - 1]);
    if (!committed.ok()) fail(committed);
    first = next;
  }
  return results;
}

absl::Status Recorder::Backup(const std::string& path, const std::stop_token& stop) const {
  if (connection_->InTransaction()) {
    return absl::FailedPreconditionError("a backup is not made among calls that run together");
  }
  auto* const file = dynamic_cast<SqliteConnection*>(connection_.get());
  if (file == nullptr) {
    return absl::UnimplementedError(fmt::format(
        "store '{}' is a PostgreSQL database; pg_dump makes a consistent copy of it", address_));
  }
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    return absl::AlreadyExistsError(fmt::format("backup '{}' exists; name a new file", path));
  }
  return CopyStore(*file, path, stop);
}

}  // namespace meshwright
