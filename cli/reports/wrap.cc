#include "cli/reports/wrap.h"

#include <algorithm>
#include <sstream>

namespace meshwright {

std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // not a continuation byte of UTF-8
  }));
}

std::string Wrapped(std::string_view text, int columns, std::string_view first,
                    std::string_view rest) {
  const auto most = static_cast<std::size_t>(columns);
  std::string lines;
  std::string line(first);
  bool is_empty = true;  // but for its beginning
  std::istringstream words{std::string(text)};
  std::string word;
  const auto take = [&] {
    if (!(words >> word)) return false;
    // A number stays with its unit.
    while ((words >> std::ws).peek() == '%') {
      std::string unit;
      words >> unit;
      word += " " + unit;
    }
    return true;
  };
  for (; take(); is_empty = false) {
    if (!is_empty && Width(line) + 1 + Width(word) > most) {
      lines += line + "\n";
      line = rest;
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += word;
  }
  return lines + line + "\n";
}

}  // namespace meshwright
