#include "cli/input/json_member.h"

#include <algorithm>
#include <cstddef>

namespace meshwright {
namespace {

// These return the position after what they skip, or the text's size if it ends before that.

std::size_t SkipSpace(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

// Skips a string; `at` is its opening quote.
std::size_t SkipString(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

// Skips a value up to the comma or bracket after it.
std::size_t SkipValue(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = SkipString(text, at);
      continue;
    }
    const bool closes = c == '}' || c == ']';
    if (depth == 0 && (closes || c == ',')) return at;
    if (c == '{' || c == '[') ++depth;
    if (closes) --depth;
    ++at;
  }
  return at;
}

bool IsAt(std::string_view text, std::size_t at, char c) {
  return at < text.size() && text[at] == c;
}

}  // namespace

std::optional<std::string_view> FindJsonMember(std::string_view object, std::string_view key) {
  std::size_t at = SkipSpace(object, 0);
  if (!IsAt(object, at, '{')) return std::nullopt;
  do {
    const std::size_t quote = SkipSpace(object, at + 1);
    if (!IsAt(object, quote, '"')) return std::nullopt;
    const std::size_t behind_key = SkipString(object, quote);
    const std::size_t colon = SkipSpace(object, behind_key);
    if (!IsAt(object, colon, ':')) return std::nullopt;
    at = SkipValue(object, colon + 1);
    if (object.substr(quote + 1, behind_key - quote - 2) == key) {
      return object.substr(colon + 1, at - colon - 1);
    }
  } while (IsAt(object, at, ','));
  return std::nullopt;
}

}  // namespace meshwright
