#include "server/engine/store_files.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

constexpr char kLogEnd[] = "-wal";

absl::Status Lost(const std::string& path, std::string_view how) {
  return WithReason(
      absl::UnavailableError(fmt::format("the store's file '{}' was {} while it was open: nothing "
                                         "is kept until it is back or the server starts anew",
                                         path, how)),
      "STORE_LOST");
}

absl::Status CheckOne(const std::string& path, const FileFacts& opened, bool may_be_empty) {
  const auto now = FactsOf(path);
  if (!now.has_value()) return Lost(path, "deleted");
  if (now->device != opened.device || now->inode != opened.inode) return Lost(path, "replaced");
  if (now->bytes == 0 && opened.bytes > 0 && !may_be_empty) return Lost(path, "emptied");
  return absl::OkStatus();
}

}  // namespace

StoreSize SizeOfStore(const std::string& path) {
  const auto database = FactsOf(path);
  if (!database.has_value()) return {};
  const auto log = FactsOf(path + kLogEnd);
  return {.bytes = database->bytes + (log.has_value() ? log->bytes : 0),
          .free_bytes = FreeBytes(path)};
}

StoreFiles::StoreFiles(std::string path)
    : path_(std::move(path)), database_(path_.empty() ? std::nullopt : FactsOf(path_)) {}

absl::Status StoreFiles::Check() const {
  if (!database_.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckOne(path_, *database_, /*may_be_empty=*/false));
  const std::string log = path_ + kLogEnd;
  const std::lock_guard lock(mutex_);
  if (!log_.has_value()) log_ = FactsOf(log);
  if (!log_.has_value()) return absl::OkStatus();
  // SQLite empties its log by itself, but keeps it as long as the store is open.
  return CheckOne(log, *log_, /*may_be_empty=*/true);
}

}  // namespace meshwright
