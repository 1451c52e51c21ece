#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "server/engine/store_files.h"
#include "server/engine/store_writer.h"

namespace meshwright {

// The store that a server has open. One Recorder writes and others only read, so that no reader
// waits for a writer. May be used from any thread.
class Store {
 public:
  // `on_write` is told how long each group of writes took; null: nobody is.
  explicit Store(Recorder writer, std::function<void(std::chrono::duration<double>)> on_write = {});
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Lends a Recorder that sees all that is committed to one call. A store in memory is visible only
  // to its writer, so there readers and writers wait for each other.
  absl::Status Read(const StoreRead& read);

  // Runs the call. Calls that arrive together are made durable together (store_writer.h). Must not
  // be called from within another call.
  absl::Status Write(StoreCall call);

  // Returns UNAVAILABLE with reason STORE_LOST if the path names another file than was opened, or
  // none, or one that was emptied: whatever is written then is lost. Writes are refused with it.
  // For a store on PostgreSQL, returns why a transaction could not be committed now.
  [[nodiscard]] absl::Status Check();

  // Returns true if other processes may write the store too.
  [[nodiscard]] bool is_shared() const { return !path_.empty() && !IsStoreFile(path_); }

  // Returns both as functions, which are valid as long as the store is.
  [[nodiscard]] StoreAccess Access();

  [[nodiscard]] int schema_version() const { return writer_.schema_version(); }

  // Returns the longest time for which one group of calls kept other writers waiting.
  [[nodiscard]] std::chrono::duration<double> longest_hold() const;

 private:
  absl::StatusOr<Recorder> TakeReader();
  void GiveBack(Recorder reader);
  std::vector<absl::Status> RunTogether(std::span<const StoreCall> calls);

  const std::string path_;  // or address; empty: in memory
  const StoreFiles files_;  // as they were opened
  const std::function<void(std::chrono::duration<double>)> on_write_;

  std::mutex readers_mutex_;
  std::vector<Recorder> idle_readers_;  // currently unused

  mutable std::mutex writer_mutex_;
  Recorder writer_;
  std::chrono::duration<double> longest_hold_{0};
  StoreWriter group_commit_;
};

}  // namespace meshwright
