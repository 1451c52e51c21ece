#include "server/engine/queue/lease_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using std::chrono::seconds;
using std::chrono::steady_clock;

// A keeper of leases of 30 s, whose clock stands until the test moves it.
class LeaseKeeperTest : public testing::Test {
 protected:
  LeaseKeeper& Start() {
    keeper_.emplace(
        LeaseTerms{.lease = seconds(30),
                   .pause = std::chrono::milliseconds(1),
                   .now =
                       [this] {
                         const std::lock_guard lock(mutex_);
                         return now_;
                       }},
        LeaseDuties{.renew = [this] { return Do(renew_count_, renew_); },
                    .look = [this] { return Do(look_count_, look_); },
                    .give_up = [this] { Do(give_up_count_, absl::OkStatus()).IgnoreError(); }});
    return *keeper_;
  }
  absl::Status Do(int& count, const absl::Status& result) {
    const std::lock_guard lock(mutex_);
    ++count;
    done_.notify_all();
    return result;
  }
  void Pass(seconds time) {
    const std::lock_guard lock(mutex_);
    now_ += time;
  }
  // Waits for two more looks or renewals, so that a whole round has seen what the test has set.
  bool WaitForRounds(int& count) {
    std::unique_lock lock(mutex_);
    const int goal = count + 2;
    return done_.wait_for(lock, seconds(120), [&] { return count >= goal; });
  }
  int Count(int& count) {
    const std::lock_guard lock(mutex_);
    return count;
  }
  void SetResults(const absl::Status& renew, const absl::Status& look) {
    const std::lock_guard lock(mutex_);
    renew_ = renew;
    look_ = look;
  }

  std::mutex mutex_;
  std::condition_variable done_;
  steady_clock::time_point now_ = {};
  absl::Status renew_;
  absl::Status look_;
  int renew_count_ = 0;
  int look_count_ = 0;
  int give_up_count_ = 0;
  std::optional<LeaseKeeper> keeper_;
};

TEST_F(LeaseKeeperTest, RenewsThreeTimesInALease) {
  const LeaseKeeper& keeper = Start();
  ASSERT_TRUE(WaitForRounds(look_count_));
  EXPECT_EQ(Count(renew_count_), 1);
  Pass(seconds(9));
  ASSERT_TRUE(WaitForRounds(look_count_));
  EXPECT_EQ(Count(renew_count_), 1);
  Pass(seconds(1));
  ASSERT_TRUE(WaitForRounds(look_count_));
  EXPECT_EQ(Count(renew_count_), 2);
  EXPECT_TRUE(keeper.Check().ok());
}

TEST_F(LeaseKeeperTest, SaysWhatIsWrongWithTheStore) {
  const LeaseKeeper& keeper = Start();
  SetResults(absl::OkStatus(), WithReason(absl::UnavailableError("no answer"), "STORE_IO"));
  ASSERT_TRUE(WaitForRounds(look_count_));
  ASSERT_TRUE(WaitForRounds(look_count_));
  EXPECT_EQ(Reason(keeper.Check()), "STORE_IO");
  EXPECT_EQ(Count(give_up_count_), 0);
  SetResults(absl::OkStatus(), absl::OkStatus());
  ASSERT_TRUE(WaitForRounds(look_count_));
  ASSERT_TRUE(WaitForRounds(look_count_));
  EXPECT_TRUE(keeper.Check().ok()) << keeper.Check();
}

// Another server may have taken the studies over by then.
TEST_F(LeaseKeeperTest, GivesUpOnceWhenALeaseHasPassedWithoutARenewal) {
  const LeaseKeeper& keeper = Start();
  ASSERT_TRUE(WaitForRounds(look_count_));
  SetResults(absl::UnavailableError("no answer"), absl::OkStatus());
  Pass(seconds(30));
  ASSERT_TRUE(WaitForRounds(renew_count_));
  EXPECT_EQ(Count(give_up_count_), 0);
  EXPECT_NE(Reason(keeper.Check()), "LEASE_LOST");
  Pass(seconds(1));
  ASSERT_TRUE(WaitForRounds(renew_count_));
  ASSERT_TRUE(WaitForRounds(renew_count_));
  EXPECT_EQ(Count(give_up_count_), 1);
  EXPECT_EQ(Reason(keeper.Check()), "LEASE_LOST");
  SetResults(absl::OkStatus(), absl::OkStatus());
  ASSERT_TRUE(WaitForRounds(look_count_));
  EXPECT_TRUE(keeper.Check().ok()) << keeper.Check();
}

// As after SIGCONT: what it held is not its own until it has been renewed.
TEST_F(LeaseKeeperTest, AProcessThatWasStoppedHasNoLease) {
  const LeaseKeeper& keeper = Start();
  ASSERT_TRUE(WaitForRounds(look_count_));
  SetResults(absl::UnavailableError("not yet"), absl::OkStatus());
  Pass(seconds(31));
  EXPECT_EQ(Reason(keeper.Check()), "LEASE_LOST");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
