#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/process/file_facts.h"

namespace meshwright {

// The size of a store's files, and what is free on their file system; nullopt if not known, as of a
// store on PostgreSQL.
struct StoreSize {
  std::optional<std::int64_t> bytes = {};
  std::optional<std::int64_t> free_bytes = {};
};
StoreSize SizeOfStore(const std::string& path);

// The files of an open store: the database and, beside it, the log of what is not in it yet. SQLite
// goes on to write into files that were deleted or replaced, and nobody would find that again. May
// be used from any thread.
class StoreFiles {
 public:
  // Notes the database of the path (empty: there is none), and the log as soon as there is one.
  explicit StoreFiles(std::string path);

  // Returns UNAVAILABLE with reason STORE_LOST if one of them was deleted, replaced or emptied.
  [[nodiscard]] absl::Status Check() const;

 private:
  const std::string path_;
  const std::optional<FileFacts> database_;
  mutable std::mutex mutex_;
  mutable std::optional<FileFacts> log_;  // guarded by the mutex
};

}  // namespace meshwright
