#include "server/process/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(ParallelForTest, DoesEachTaskOnce) {
  for (const std::size_t most_threads : {0U, 1U, 3U}) {
    std::vector<std::atomic<int>> done(100);
    ParallelFor(
        done.size(), [&](std::size_t i) { ++done[i]; }, most_threads);
    for (const std::atomic<int>& one : done) EXPECT_EQ(one, 1);
  }
  ParallelFor(0, [](std::size_t) { FAIL(); });
}

TEST(ParallelForTest, OneThreadIsTheCallersOwn) {
  std::set<std::thread::id> threads;
  ParallelFor(
      50, [&](std::size_t) { threads.insert(std::this_thread::get_id()); }, 1);
  EXPECT_EQ(threads, std::set<std::thread::id>{std::this_thread::get_id()});
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
