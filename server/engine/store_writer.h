#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "recorder/recorder.h"

namespace meshwright {

// Lets many threads write to one store. Calls that arrive while others are being made durable are
// made durable together, with one sync instead of one each (docs/store/durability.md). It starts no
// thread: one of the waiting threads writes for all.
class StoreWriter {
 public:
  // Runs calls together: Recorder::RunTogether of a store that nobody else uses meanwhile.
  using Together = std::function<std::vector<absl::Status>(std::span<const StoreCall>)>;

  explicit StoreWriter(Together together) : together_(std::move(together)) {}
  StoreWriter(const StoreWriter&) = delete;
  StoreWriter& operator=(const StoreWriter&) = delete;

  // Returns OK once what the call stored is durable, or the reason why it is not. May be called
  // from any thread. The call may use the Recorder more than once, and all of it takes effect or
  // none. It sees what earlier calls stored. It runs on the thread of some caller, so it must not
  // call Run and must not wait. Its results are valid only if this returns OK, because the disk may
  // fail after the call.
  absl::Status Run(StoreCall call);

 private:
  struct Waiter {
    StoreCall call = {};
    absl::Status result = {};
    bool is_done = false;
  };

  [[nodiscard]] std::vector<absl::Status> RunAll(std::span<const StoreCall> calls) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Waiter*> queue_;  // in the order of arrival
  bool is_writing_ = false;
  const Together together_;
};

}  // namespace meshwright
