#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/sql/connection.h"

struct sqlite3;

namespace meshwright {

enum class ConnectionMode { kReadOnly, kReadWrite };

// A connection to an SQLite file, or to a database in memory (":memory:").
class SqliteConnection final : public Connection {
 public:
  // Opens a connection; a writer's creates the file. The connection waits up to five seconds for
  // other connections' locks.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> Open(const std::string& path,
                                                                ConnectionMode mode);
  explicit SqliteConnection(sqlite3* opened) : sqlite_(opened) {}

  absl::Status Execute(const std::string& sql) override;
  absl::StatusOr<std::unique_ptr<PreparedStatement>> Prepare(
      std::string_view sql, std::string_view number_column) override;
  absl::Status Begin() override;
  absl::Status Commit() override { return Execute("COMMIT"); }
  [[nodiscard]] bool InTransaction() const override;
  [[nodiscard]] std::int64_t changed_rows() const override;
  absl::StatusOr<std::int64_t> TakeNumber(std::string_view table, std::string_view column) override;
  absl::StatusOr<std::int64_t> TimeMs() override;

  // Copies all pages into a new file. The copy is a consistent state, even while others read and
  // write. The connection is in no transaction. CANCELLED once a stop is requested.
  absl::Status CopyPagesInto(const std::string& path, const std::stop_token& stop);

  // Closing the last connection of a WAL file writes its log into the file, unless it is kept.
  void KeepLogOnClose(bool keep);

 private:
  absl::Status CopySnapshotInto(const SqliteConnection& target, const std::string& path,
                                const std::stop_token& stop);

  struct Close {
    void operator()(sqlite3* connection) const noexcept;
  };

  std::unique_ptr<sqlite3, Close> sqlite_;
};

}  // namespace meshwright
