#include "server/engine/queue/lease_keeper.h"

#include <fmt/format.h>

#include <utility>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

// A renewal may fail twice before the lease expires.
constexpr int kRenewalsPerLease = 3;

}  // namespace

LeaseKeeper::LeaseKeeper(LeaseTerms terms, LeaseDuties duties)
    : terms_(std::move(terms)),
      duties_(std::move(duties)),
      renewed_(terms_.now() - terms_.lease / kRenewalsPerLease),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

LeaseKeeper::~LeaseKeeper() = default;

void LeaseKeeper::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const absl::Status done = DoRound();
    bool gives_up = false;
    {
      std::unique_lock lock(mutex_);
      last_ = done;
      gives_up = !done.ok() && !has_given_up_ && terms_.now() - renewed_ > terms_.lease;
      has_given_up_ = !done.ok() && (has_given_up_ || gives_up);
    }
    if (gives_up) duties_.give_up();
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, stop, terms_.pause, [this] { return is_woken_; });
    is_woken_ = false;
  }
}

absl::Status LeaseKeeper::DoRound() {
  const auto start = terms_.now();
  bool is_due = false;
  {
    const std::lock_guard lock(mutex_);
    is_due = start - renewed_ >= terms_.lease / kRenewalsPerLease;
  }
  if (is_due) {
    RETURN_IF_ERROR(duties_.renew());
    const std::lock_guard lock(mutex_);
    renewed_ = start;
  }
  return duties_.look();
}

absl::Status LeaseKeeper::Check() const {
  const std::lock_guard lock(mutex_);
  const auto age = terms_.now() - renewed_;
  if (age > terms_.lease) {
    return WithReason(
        absl::UnavailableError(fmt::format(
            "the leases of this server's studies were last renewed {:.1f} s ago; must be <= {:.1f} "
            "s (--study-lease-seconds)",
            std::chrono::duration<double>(age).count(),
            std::chrono::duration<double>(terms_.lease).count())),
        "LEASE_LOST");
  }
  return last_;
}

void LeaseKeeper::Wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = true;
  woken_.notify_all();
}

}  // namespace meshwright
