#include "recorder/backup.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <filesystem>
#include <system_error>

#include "recorder/file_system.h"
#include "recorder/sql.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

absl::Status CopyPages(sqlite3* source, const std::string& path) {
  ASSIGN_OR_RETURN(const Connection target, OpenConnection(path, ConnectionMode::kReadWrite));
  sqlite3_backup* backup = sqlite3_backup_init(target.get(), "main", source, "main");
  if (backup == nullptr) return SqlError(target.get());
  // Copies all pages in one step, so that the copy is a snapshot; in WAL mode this blocks no
  // writer.
  const int step = sqlite3_backup_step(backup, -1);
  const int finish = sqlite3_backup_finish(backup);
  if (finish != SQLITE_OK) return SqlError(target.get());
  // Finish does not report a step that met a lock, after which the copy is incomplete.
  if (step != SQLITE_DONE) {
    return WithReason(absl::UnavailableError(fmt::format("backup '{}': the store is busy", path)),
                      "STORE_BUSY");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CopyStore(sqlite3* source, const std::string& path) {
  const std::string partial = path + ".partial";
  std::error_code error;
  std::filesystem::remove(partial, error);  // left by an earlier copy that was interrupted
  RETURN_IF_ERROR(CopyPages(source, partial));
  std::filesystem::rename(partial, path, error);
  if (error) {
    return WithReason(
        absl::UnavailableError(fmt::format("cannot write '{}': {}", path, error.message())),
        "STORE_IO");
  }
  return SyncFolderOf(path);
}

}  // namespace meshwright
