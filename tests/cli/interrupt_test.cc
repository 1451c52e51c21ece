#include "cli/program/interrupt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(InterruptTest, SignalRequestsStop) {
  const Interrupt interrupt;
  EXPECT_FALSE(interrupt.token().stop_requested());
  std::mutex mutex;
  std::condition_variable stopped;
  const std::stop_callback notify(interrupt.token(), [&] {
    const std::lock_guard lock(mutex);
    stopped.notify_one();
  });
  std::unique_lock lock(mutex);
  kill(getpid(), SIGINT);
  EXPECT_TRUE(stopped.wait_for(lock, std::chrono::seconds(120),
                               [&] { return interrupt.token().stop_requested(); }));
}

TEST(InterruptTest, LeavesSignalsAsTheyWere) {
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  { const Interrupt interrupt; }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
