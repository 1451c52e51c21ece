#include "recorder/store_lock.h"

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

// 0, or the error. A text that is cut off is nobody's end in order.
int WriteText(int descriptor, std::string_view text) {
  if (ftruncate(descriptor, 0) != 0) return errno;
  return pwrite(descriptor, text.data(), text.size(), 0) < 0 ? errno : 0;
}

// What others read while the lock is held.
std::string Holder(std::string_view who) { return fmt::format("pid {} ({})", getpid(), who); }

// What stays after an end in order. With the boot (proc(5)), as the file is not forced to disk: a
// machine that lost its power may show an older text, which is of an older boot.
std::string OrderlyEnd() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  if (!std::getline(file, boot) || boot.empty()) return "";
  return fmt::format("{} (boot {})", kEndedInOrder, boot);
}

// 0 when taken, else the error; EWOULDBLOCK: still taken after `wait`. Counts its sleeps, as
// nothing in this folder reads a clock.
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
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return LockFileError(path, errno);
  StoreLock lock(descriptor);
  const int error = Lock(descriptor, wait);
  if (error == 0) {
    const std::string end = OrderlyEnd();
    lock.ended_in_order_ = !end.empty() && ReadText(descriptor) == end;
    // What an earlier holder left must not be taken for the end of this one.
    const int failure = WriteText(descriptor, Holder(who));
    if (failure != 0) return LockFileError(path, failure);
    return lock;
  }
  if (error != EWOULDBLOCK) return LockFileError(path, error);
  std::string holder = ReadText(descriptor);
  // For the instant between locking and writing it is not named.
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
  // Where this fails the next writer checks once too often.
  if (releases_in_order_) WriteText(descriptor_, OrderlyEnd());
  close(descriptor_);
}

}  // namespace meshwright
