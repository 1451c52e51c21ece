#include "cli/reports/wrap.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <sstream>
#include <utility>

#include "cli/reports/text_width.h"

namespace meshwright {
namespace {

constexpr std::array<std::string_view, 7> kUnits = {"%", "s", "ms", "us", "GiB", "GB", "bytes"};
constexpr std::string_view kTo = "..";  // "58.1 .. 87.9"
constexpr std::array<std::string_view, 5> kBeforeNumbers = {">", "<", ">=", "<=", kTo};

// Returns true for a unit, also with a bracket or punctuation after it.
bool IsUnit(std::string_view word) {
  const std::size_t end = word.find_last_not_of(".,;:)");
  return end != word.npos && std::ranges::find(kUnits, word.substr(0, end + 1)) != kUnits.end();
}

bool EndsWithDigit(std::string_view word) {
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word.back())) != 0;
}

// Returns the parts of a text that no line break may divide.
std::vector<std::string> Unbroken(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::vector<std::string> parts;
  bool lacks_number = false;  // the last part is a comparison without its number yet
  for (std::string word; words >> word;) {
    const bool follows_number = !parts.empty() && EndsWithDigit(parts.back());
    const bool joins = lacks_number || (follows_number && (IsUnit(word) || word == kTo));
    lacks_number = std::ranges::find(kBeforeNumbers, word) != kBeforeNumbers.end();
    if (joins) {
      parts.back() += " " + word;
    } else {
      parts.push_back(std::move(word));
    }
  }
  return parts;
}

}  // namespace

std::string Wrapped(std::string_view text, int columns, std::string_view first,
                    std::string_view rest) {
  const auto most = static_cast<std::size_t>(columns);
  std::string lines;
  std::string line(first);
  bool is_empty = true;  // but for its beginning
  for (const std::string& part : Unbroken(text)) {
    if (!is_empty && Width(line) + 1 + Width(part) > most) {
      lines += line + "\n";
      line = rest;
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += part;
    is_empty = false;
  }
  return lines + line + "\n";
}

std::string WrappedItems(const std::vector<std::string>& items, std::string_view separator,
                         int columns, std::string_view indent) {
  const auto most = static_cast<std::size_t>(columns);
  std::string lines;
  std::string line;
  const auto flush = [&] {
    if (!line.empty()) lines += Wrapped(line, columns, indent, indent);
    line.clear();
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::string item = items[i];
    if (i + 1 < items.size()) item += separator;
    if (!line.empty() && Width(indent) + Width(line) + 1 + Width(item) > most) flush();
    if (!line.empty()) line += ' ';
    line += item;
  }
  flush();
  return lines;
}

}  // namespace meshwright
