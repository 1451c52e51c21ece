#pragma once

#include <chrono>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "server/engine/store_writer.h"

namespace meshwright {

// The store that a server has open: one Recorder that writes, and others that only read, so that
// nobody who looks something up waits for a writer. May be used from any thread.
class Store {
 public:
  explicit Store(Recorder writer);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Lends a Recorder to one call, which sees all that is committed. A store in memory can be seen
  // only by its writer: there readers and writers wait for each other.
  absl::Status Read(const StoreRead& read);

  // Makes calls that arrive together durable together (store_writer.h); must not be called from
  // another call.
  absl::Status Write(StoreCall call);

  // Both as functions; valid as long as the store is.
  [[nodiscard]] StoreAccess Access();

  [[nodiscard]] int schema_version() const { return writer_.schema_version(); }

  // The longest time for which one group of calls kept other writers waiting.
  [[nodiscard]] std::chrono::duration<double> longest_hold() const;

 private:
  absl::StatusOr<Recorder> TakeReader();
  void GiveBack(Recorder reader);
  std::vector<absl::Status> RunTogether(std::span<const StoreCall> calls);

  const std::string path_;  // empty: in memory

  std::mutex readers_mutex_;
  std::vector<Recorder> idle_readers_;  // that nobody uses at the moment

  mutable std::mutex writer_mutex_;
  Recorder writer_;
  std::chrono::duration<double> longest_hold_{0};
  StoreWriter group_commit_;
};

}  // namespace meshwright
