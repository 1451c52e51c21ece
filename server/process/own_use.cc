#include "server/process/own_use.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace meshwright {
namespace {

// proc(5), statm: the second figure counts the resident pages.
std::optional<std::int64_t> ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  if (!(file >> total >> resident)) return std::nullopt;
  return resident * sysconf(_SC_PAGESIZE);
}

std::optional<int> OpenFiles() {
  std::error_code error;
  int count = -1;  // without the folder that is being read
  std::filesystem::directory_iterator entry("/proc/self/fd", error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    ++count;
    entry.increment(error);
  }
  if (error) return std::nullopt;
  return count;
}

}  // namespace

OwnUse ReadOwnUse() { return {.resident_bytes = ResidentBytes(), .open_files = OpenFiles()}; }

}  // namespace meshwright
