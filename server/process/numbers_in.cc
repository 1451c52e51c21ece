#include "server/process/numbers_in.h"

#include <charconv>
#include <filesystem>
#include <system_error>

namespace meshwright {

std::vector<int> NumbersIn(const std::string& folder) {
  std::vector<int> numbers;
  std::error_code error;
  // A range-based loop would throw if the folder goes away.
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int number = 0;
    const auto [end, mistake] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (mistake == std::errc() && end == name.data() + name.size()) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace meshwright
