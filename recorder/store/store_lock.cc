#include "recorder/store/store_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

constexpr std::chrono::milliseconds kPollInterval(20);
constexpr std::string_view kEndedInOrder = "ended in order";

absl::Status LockFileError(const std::string& path, int error) {
  const std::string message = fmt::format("lock file '{}': {}", path, std::strerror(error));
  if (error == EACCES || error == EPERM || error == EROFS) {
    return WithReason(absl::PermissionDeniedError(message), "STORE_IO");
  }
  return WithReason(absl::UnavailableError(message), "STORE_IO");
}

std::string ReadText(int descriptor) {
  std::array<char, 256> text = {};
  const ssize_t size = pread(descriptor, text.data(), text.size(), 0);
  if (size <= 0) return "";
  return {text.data(), static_cast<std::size_t>(size)};
}

// Returns 0 or the error. A text that is cut off equals no orderly end.
int WriteText(int descriptor, std::string_view text) {
  if (ftruncate(descriptor, 0) != 0) return errno;
  return pwrite(descriptor, text.data(), text.size(), 0) < 0 ? errno : 0;
}

// Returns the text that other processes read while the lock is held.
std::string Holder(std::string_view who) { return fmt::format("pid {} ({})", getpid(), who); }

// Returns the text that remains after an end in order. It names the boot (proc(5)), because the
// file is not synced to disk: after a power loss an older text may reappear, and it names an older
// boot.
std::string OrderlyEnd() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  if (!std::getline(file, boot) || boot.empty()) return "";
  return fmt::format("{} (boot {})", kEndedInOrder, boot);
}

// Returns 0 if the lock is taken, or else the error; EWOULDBLOCK if another holds it even after
// `wait`. Counts its sleeps, because nothing in this folder reads a clock.
int Lock(int descriptor, std::chrono::milliseconds wait) {
  while (true) {
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK || wait.count() <= 0) return errno;
    const auto nap = std::min(kPollInterval, wait);
    usleep(static_cast<useconds_t>(nap.count() * 1000));
    wait -= nap;
  }
}

}  // namespace

absl::StatusOr<StoreLock> StoreLock::Acquire(const std::string& store_path, std::string_view who,
                                             std::chrono::milliseconds wait) {
  const std::string path = store_path + ".lock";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return LockFileError(path, errno);
  StoreLock lock(descriptor);
  const int error = Lock(descriptor, wait);
  if (error == 0) {
    const std::string end = OrderlyEnd();
    lock.ended_in_order_ = !end.empty() && ReadText(descriptor) == end;
    // The text of an earlier holder must not be taken for the end of this one.
    const int failure = WriteText(descriptor, Holder(who));
    if (failure != 0) return LockFileError(path, failure);
    return lock;
  }
  if (error != EWOULDBLOCK) return LockFileError(path, error);
  std::string holder = ReadText(descriptor);
  // The holder is not named yet in the instant between locking and writing.
  if (holder.empty() || holder.starts_with(kEndedInOrder)) holder = "another process";
  return WithReason(absl::UnavailableError(fmt::format(
                        "store '{}' is in use by {}; reach that process with --server ADDRESS, or "
                        "name another file with --db FILE",
                        store_path, holder)),
                    "STORE_IN_USE");
}

StoreLock::StoreLock(StoreLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      ended_in_order_(other.ended_in_order_),
      releases_in_order_(other.releases_in_order_) {}

StoreLock& StoreLock::operator=(StoreLock&& other) noexcept {
  if (this == &other) return *this;
  Release();
  descriptor_ = std::exchange(other.descriptor_, -1);
  ended_in_order_ = other.ended_in_order_;
  releases_in_order_ = other.releases_in_order_;
  return *this;
}

StoreLock::~StoreLock() { Release(); }

void StoreLock::Release() {
  if (descriptor_ < 0) return;
  // If this fails, the next writer performs one unnecessary check.
  if (releases_in_order_) WriteText(descriptor_, OrderlyEnd());
  close(descriptor_);
}

}  // namespace meshwright
