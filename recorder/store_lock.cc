#include "recorder/store_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "search_space/status.h"

namespace meshwright {
namespace {

constexpr std::chrono::milliseconds kPollInterval(20);

absl::Status LockFileError(const std::string& path, int error) {
  const std::string message = fmt::format("lock file '{}': {}", path, std::strerror(error));
  if (error == EACCES || error == EPERM || error == EROFS) {
    return WithReason(absl::PermissionDeniedError(message), "STORE_IO");
  }
  return WithReason(absl::UnavailableError(message), "STORE_IO");
}

std::string ReadHolder(int descriptor) {
  std::array<char, 256> text = {};
  const ssize_t size = pread(descriptor, text.data(), text.size(), 0);
  // Empty for the instant between locking and writing.
  if (size <= 0) return "another process";
  return {text.data(), static_cast<std::size_t>(size)};
}

// What others read while the lock is held. Only for people, so a failure to write is no failure.
void WriteHolder(int descriptor, std::string_view who) {
  const std::string text = fmt::format("pid {} ({})", getpid(), who);
  if (ftruncate(descriptor, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = pwrite(descriptor, text.data(), text.size(), 0);
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
    WriteHolder(descriptor, who);
    return lock;
  }
  if (error != EWOULDBLOCK) return LockFileError(path, error);
  return WithReason(absl::UnavailableError(fmt::format(
                        "store '{}' is in use by {}; reach that process with --server ADDRESS, or "
                        "name another file with --db FILE",
                        store_path, ReadHolder(descriptor))),
                    "STORE_IN_USE");
}

StoreLock::StoreLock(StoreLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

StoreLock& StoreLock::operator=(StoreLock&& other) noexcept {
  if (this == &other) return *this;
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

StoreLock::~StoreLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace meshwright
