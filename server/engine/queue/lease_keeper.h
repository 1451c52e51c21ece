#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "absl/status/status.h"

namespace meshwright {

// Tells a keeper what a server does again and again on a store that it shares with others. Called
// from the keeper's thread, one at a time.
struct LeaseDuties {
  // Renews the leases of the studies that run here, and stops those that another server has.
  std::function<absl::Status()> renew = {};
  // Looks for what other servers have stored: wishes about the studies that run here, studies that
  // nobody runs, and events.
  std::function<absl::Status()> look = {};
  // Stops all studies that run here, because their leases may have expired.
  std::function<void()> give_up = {};
};

struct LeaseTerms {
  std::chrono::milliseconds lease = std::chrono::seconds(30);
  std::chrono::milliseconds pause = std::chrono::milliseconds(200);  // between two looks
  // The clock of this machine; a test moves one of its own. Called from any thread.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

// Keeps the leases of a server's studies as long as it lives: renews them three times in the time
// for which they hold, and looks at the store between. May be used from any thread.
class LeaseKeeper {
 public:
  LeaseKeeper(LeaseTerms terms, LeaseDuties duties);
  ~LeaseKeeper();  // waits for a duty that runs
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Returns why the last round failed. UNAVAILABLE with reason LEASE_LOST if no lease that was held
  // before can be relied on: it was not renewed in time by this machine's clock, because the store
  // does not answer or this process was stopped. Does not wait for the store.
  [[nodiscard]] absl::Status Check() const;

  // Does at once what it would do after its pause.
  void Wake();

 private:
  void Run(const std::stop_token& stop);
  absl::Status DoRound();

  const LeaseTerms terms_;
  const LeaseDuties duties_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable_any woken_;
  bool is_woken_ = false;
  absl::Status last_;
  std::chrono::steady_clock::time_point renewed_;  // when the last renewal that succeeded began
  bool has_given_up_ = false;
  std::jthread thread_;  // last, because it uses all members above
};

}  // namespace meshwright
