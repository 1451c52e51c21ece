#include "server/engine/store_writer.h"

#include <exception>
#include <string>

namespace meshwright {

// Catches everything, so that all waiting callers get a result.
std::vector<absl::Status> StoreWriter::RunAll(std::span<const StoreCall> calls) const {
  try {
    return together_(calls);
  } catch (const std::exception& e) {
    return std::vector<absl::Status>(
        calls.size(), absl::InternalError(std::string("the store's calls failed: ") + e.what()));
  }
}

absl::Status StoreWriter::Run(StoreCall call) {
  Waiter waiter = {.call = std::move(call)};
  std::unique_lock lock(mutex_);
  queue_.push_back(&waiter);
  changed_.wait(lock, [&] { return waiter.is_done || !is_writing_; });
  if (waiter.is_done) return waiter.result;

  // No thread is writing, so this one writes for all that wait.
  is_writing_ = true;
  const std::vector<Waiter*> group = std::exchange(queue_, {});
  lock.unlock();
  std::vector<StoreCall> calls;
  calls.reserve(group.size());
  for (Waiter* member : group) calls.push_back(std::move(member->call));
  std::vector<absl::Status> results = RunAll(calls);
  lock.lock();
  for (std::size_t i = 0; i < group.size(); ++i) {
    group[i]->result = std::move(results[i]);
    group[i]->is_done = true;
  }
  is_writing_ = false;
  // This must happen under the lock: a waiter that has its result may destroy the writer.
  changed_.notify_all();
  return waiter.result;
}

}  // namespace meshwright
