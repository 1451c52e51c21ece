#include "server/process/descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace meshwright {
namespace {

absl::StatusOr<Pipe> PipeOf(int made, const std::array<int, 2>& ends, std::string_view name) {
  if (made == 0) return Pipe{FileHandle(ends[0]), FileHandle(ends[1])};
  return absl::ResourceExhaustedError(fmt::format("{}: {}", name, std::strerror(errno)));
}

absl::StatusOr<FileHandle> DescriptorOf(int number, std::string_view name) {
  if (number >= 0) return FileHandle(number);
  return absl::UnavailableError(fmt::format("{}: {}", name, std::strerror(errno)));
}

}  // namespace

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

void FileHandle::Close() {
  if (is_open()) close(Release());
}

int FileHandle::Release() { return std::exchange(number_, -1); }

absl::StatusOr<Pipe> MakePipe() {
  std::array<int, 2> ends = {};
  const int made = pipe2(ends.data(), O_CLOEXEC);
  return PipeOf(made, ends, "pipe");
}

absl::StatusOr<Pipe> MakeInputPipe() {
  std::array<int, 2> ends = {};
  const int made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
  return PipeOf(made, ends, "socketpair");
}

absl::StatusOr<FileHandle> OpenForAppending(const std::string& path) {
  return DescriptorOf(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644), path);
}

absl::StatusOr<FileHandle> OpenEmptyInput() {
  constexpr char kNull[] = "/dev/null";
  return DescriptorOf(open(kNull, O_RDONLY | O_CLOEXEC), kNull);
}

absl::StatusOr<FileHandle> OpenProcess(int pid) {
  return DescriptorOf(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), "pidfd_open");
}

}  // namespace meshwright
