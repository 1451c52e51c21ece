#include "server/tuner/owner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

namespace meshwright {
namespace {

// The start time of a living process.
std::optional<std::string> StartTime(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // Field 2 is the program's name in parentheses and may itself hold blanks and parentheses.
  const std::size_t end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(end_of_name + 1));
  std::string field;
  rest >> field;  // field 3: state
  // A zombie has ended; its parent just has not looked yet.
  if (field == "Z" || field == "X") return std::nullopt;
  for (int index = 4; index <= 22; ++index) {
    if (!(rest >> field)) return std::nullopt;
  }
  return field;
}

}  // namespace

std::string OwnOwner() {
  const int pid = getpid();
  return fmt::format("{}:{}", pid, StartTime(pid).value_or("?"));
}

bool IsAlive(std::string_view owner) {
  const std::size_t colon = owner.find(':');
  if (colon == std::string_view::npos) return false;
  int pid = 0;
  const auto [end, error] = std::from_chars(owner.data(), owner.data() + colon, pid);
  if (error != std::errc() || end != owner.data() + colon || pid <= 0) return false;
  const auto start_time = StartTime(pid);
  return start_time.has_value() && *start_time == owner.substr(colon + 1);
}

}  // namespace meshwright
