#pragma once

#include <chrono>
#include <thread>

namespace meshwright {

// Waits until `has_happened()` and returns true. Returns false if it has not happened within the
// deadline, which is far above what anything takes on a busy machine. Use it only for things that
// send no notice: files, processes and servers of others. Nothing else in the tests sleeps.
template <typename Event>
[[nodiscard]] bool WaitFor(const Event& has_happened,
                           std::chrono::seconds deadline = std::chrono::seconds(120)) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!has_happened()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace meshwright
