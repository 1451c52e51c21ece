#include "server/process/owner.h"

#include <fmt/format.h>

#include <fstream>
#include <optional>
#include <sstream>

namespace meshwright {
namespace {

struct Process {
  std::string pid = {};
  std::string start_time = {};
};

// Reads /proc/<name>/stat. Returns nullopt for a process that has ended.
std::optional<Process> ReadProcess(std::string_view name) {
  std::ifstream file(fmt::format("/proc/{}/stat", name));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // Field 2 is the program's name in parentheses and may itself hold blanks and parentheses.
  const std::size_t end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  Process process = {.pid = line.substr(0, line.find(' '))};
  std::istringstream rest(line.substr(end_of_name + 1));
  std::string state;
  rest >> state;  // field 3
  // A zombie has ended, but its parent has not reaped it yet.
  if (state == "Z" || state == "X") return std::nullopt;
  for (int field = 4; field <= 22; ++field) {
    if (!(rest >> process.start_time)) return std::nullopt;
  }
  return process;
}

}  // namespace

std::string OwnOwner() {
  const Process self = ReadProcess("self").value_or(Process{.pid = "?", .start_time = "?"});
  return fmt::format("{}:{}", self.pid, self.start_time);
}

bool IsAlive(std::string_view owner) {
  const std::size_t colon = owner.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view pid = owner.substr(0, colon);
  // Only digits are allowed, because the text becomes part of a path.
  if (pid.find_first_not_of("0123456789") != std::string_view::npos) return false;
  const auto process = ReadProcess(pid);
  return process.has_value() && process->start_time == owner.substr(colon + 1);
}

}  // namespace meshwright
