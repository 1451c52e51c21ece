#include "server/process/owner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/process/descriptor.h"

namespace meshwright {
namespace {

struct Process {
  std::string pid = {};
  std::string start_time = {};
};

// Reads the beginning of /proc/<name>/stat, in which all the fields used here are. Returns
// NOT_FOUND if there is no such process.
absl::StatusOr<std::string> ReadStat(std::string_view name) {
  const std::string path = fmt::format("/proc/{}/stat", name);
  const FileHandle file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return absl::ErrnoToStatus(errno, path);
  std::array<char, 1024> text = {};
  const ssize_t size = read(file.number(), text.data(), text.size());
  if (size < 0) return absl::ErrnoToStatus(errno, path);  // ESRCH is NOT_FOUND as well
  return std::string(text.data(), static_cast<std::size_t>(size));
}

// Returns NOT_FOUND for a process that has ended, and another error if it cannot be told.
absl::StatusOr<Process> ReadProcess(std::string_view name) {
  const absl::StatusOr<std::string> line = ReadStat(name);
  if (!line.ok()) return line.status();
  // Field 2 is the program's name in parentheses and may itself hold blanks and parentheses.
  const std::size_t end_of_name = line->rfind(')');
  if (end_of_name == std::string::npos) return absl::DataLossError(*line);
  Process process = {.pid = line->substr(0, line->find(' '))};
  std::istringstream rest(line->substr(end_of_name + 1));
  std::string state;
  rest >> state;  // field 3
  // A zombie has ended, but its parent has not reaped it yet.
  if (state == "Z" || state == "X") return absl::NotFoundError("the process has ended");
  for (int field = 4; field <= 22; ++field) {
    if (!(rest >> process.start_time)) return absl::DataLossError(*line);
  }
  return process;
}

}  // namespace

std::string OwnOwner() {
  const Process self = ReadProcess("self").value_or(Process{.pid = "?", .start_time = "?"});
  return fmt::format("{}:{}", self.pid, self.start_time);
}

std::string OwnOwnerAmongHosts() {
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) host.front() = '?';
  return fmt::format("{} {}", host.data(), OwnOwner());
}

bool IsAlive(std::string_view owner) {
  const std::size_t colon = owner.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view pid = owner.substr(0, colon);
  // Only digits are allowed, because the text becomes part of a path.
  if (pid.find_first_not_of("0123456789") != std::string_view::npos) return false;
  const auto process = ReadProcess(pid);
  if (!process.ok()) return !absl::IsNotFound(process.status());
  return process->start_time == owner.substr(colon + 1);
}

}  // namespace meshwright
