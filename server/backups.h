#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/history_queries.h"

namespace meshwright {

// The copies that a server makes of its store at regular times.
struct BackupPlan {
  std::string folder = {};  // empty: none are made
  int hours = 24;           // between two copies
  int count = 7;            // copies that are kept; older ones are deleted
};

// The part of the names of a store's copies that says when each was made: "20261129T015739Z".
std::string BackupLabel(std::chrono::sys_seconds time);
// Returns nullopt for other texts.
std::optional<std::chrono::sys_seconds> TimeOfBackupLabel(std::string_view label);

// Returns NOT_FOUND or INVALID_ARGUMENT if the folder is no folder that can be written.
absl::Status CheckBackupFolder(const std::string& folder);

// Makes the copies of one store in a thread of its own, as long as it exists. The next copy is due
// when the newest one in the folder is old enough, so a restart neither repeats nor misses one. A
// copy that fails is tried again after a minute. The log says what was made, deleted and what
// failed. Files that are not copies of this store stay.
class Backups {
 public:
  // The queries are those of the store with this path, and outlive the backups.
  Backups(BackupPlan plan, const std::string& store, const HistoryQueries& queries);
  Backups(const Backups&) = delete;
  Backups& operator=(const Backups&) = delete;

  // The time of the newest copy in the folder, in seconds since 1970-01-01 UTC; nullopt: none.
  [[nodiscard]] std::optional<std::int64_t> newest_seconds() const;

 private:
  // Returns the times of the copies in the folder, the oldest first.
  [[nodiscard]] std::vector<std::chrono::sys_seconds> Times() const;
  [[nodiscard]] std::string NameOf(std::chrono::sys_seconds time) const;
  // Makes a copy if it is due, deletes those that are too many, and returns when to look again.
  [[nodiscard]] std::chrono::sys_seconds Work(const std::stop_token& stop);
  void DeleteOldest(const std::vector<std::chrono::sys_seconds>& times) const;

  const BackupPlan plan_;
  const std::string stem_;  // of the store's file
  const std::string extension_;
  const HistoryQueries& queries_;
  std::atomic<std::int64_t> newest_ = 0;  // 0: none
  std::jthread thread_;                   // the last member: it uses the others
};

}  // namespace meshwright
