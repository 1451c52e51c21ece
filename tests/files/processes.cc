#include "tests/files/processes.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "tests/files/temporary_folder.h"

namespace meshwright {

std::vector<int> ProcessesWith(const std::string& text, const std::vector<std::string>& files) {
  std::vector<int> found;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const int pid = std::atoi(entry->path().filename().c_str());
    if (pid <= 1 || pid == getpid()) continue;
    const bool has_text = std::ranges::any_of(files, [&](const std::string& file) {
      return ReadFile(entry->path() / file).find(text) != std::string::npos;
    });
    if (has_text) found.push_back(pid);
  }
  return found;
}

}  // namespace meshwright
