#include "server/process/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace meshwright {

void ParallelFor(std::size_t count, const std::function<void(std::size_t)>& task,
                 std::size_t most_threads) {
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) task(i);
  };
  std::size_t workers = std::max(1U, std::thread::hardware_concurrency());
  if (most_threads > 0) workers = std::min(workers, most_threads);
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(workers, count); ++i) {
    try {
      threads.emplace_back(run);
    } catch (const std::system_error&) {
      break;  // no more threads are available; the existing ones do the work
    }
  }
  run();
}

}  // namespace meshwright
