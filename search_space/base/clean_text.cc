#include "search_space/base/clean_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace meshwright {
namespace {

constexpr std::size_t kLongestCharacter = 4;

std::uint8_t ByteAt(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

bool IsContinuation(std::uint8_t byte) { return (byte & 0xC0) == 0x80; }

// Returns the length in bytes of the character at the beginning of the text, or 0 if there is none.
// After four of the first bytes the range of the second is narrower (Unicode 15, table 3-7), which
// excludes overlong forms, surrogates and everything above U+10FFFF.
std::size_t CharacterLength(std::string_view text) {
  const std::uint8_t first = ByteAt(text, 0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!IsContinuation(ByteAt(text, i))) return 0;
  }
  const std::uint8_t second = ByteAt(text, 1);
  const bool is_refused = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                          (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return is_refused ? 0 : length;
}

// Returns true if the character is DEL or in C0 or C1 (whose characters have two bytes).
bool IsControl(std::string_view character) {
  const std::uint8_t first = ByteAt(character, 0);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return first == 0xC2 && ByteAt(character, 1) < 0xA0;
}

// Returns the code point of a control character, which has one byte or two.
unsigned ControlCode(std::string_view character) { return ByteAt(character, character.size() - 1); }

bool IsLayoutCharacter(std::string_view character) {
  return character == "\n" || character == "\t";
}

// Returns a first guess at the part to keep: at most `length` bytes, not beginning in the middle of
// a character.
std::string_view LastPart(std::string_view text, std::size_t length) {
  if (text.size() <= length) return text;
  text.remove_prefix(text.size() - length);
  for (std::size_t i = 1; i < kLongestCharacter && !text.empty(); ++i) {
    if (!IsContinuation(ByteAt(text, 0))) break;
    text.remove_prefix(1);
  }
  return text;
}

}  // namespace

std::string CleanText(std::string_view text, const TextForm& form) {
  if (form.keeps_end) text = LastPart(text, form.longest_bytes);
  std::string clean;
  clean.reserve(std::min(text.size(), form.longest_bytes));
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    text.remove_prefix(character.size());
    const bool is_layout = form.keeps_lines && IsLayoutCharacter(character);
    std::string_view kept = character;
    if (length == 0) {
      kept = "?";
    } else if (IsControl(character) && !is_layout) {
      kept = " ";
    }
    if (clean.size() + kept.size() > form.longest_bytes) break;
    clean.append(kept);
  }
  return clean;
}

std::optional<std::string> TextMistake(std::string_view text, TextLayout layout) {
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const std::size_t length = CharacterLength(rest);
    if (length == 0) {
      return fmt::format("{}; must be UTF-8, but byte {} is not", QuotedText(text), at + 1);
    }
    const std::string_view character = rest.substr(0, length);
    const bool is_layout = layout == TextLayout::kLines && IsLayoutCharacter(character);
    if (IsControl(character) && !is_layout) {
      return fmt::format("{}; must have no control characters, but byte {} is U+{:04X}",
                         QuotedText(text), at + 1, ControlCode(character));
    }
    at += length;
  }
  return std::nullopt;
}

std::string QuotedText(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string quoted = "\"";
  for (std::size_t at = 0; at < text.size();) {
    if (at >= kLongest) {
      return fmt::format("{}\" and {} more bytes", quoted, text.size() - at);
    }
    const std::size_t length = CharacterLength(text.substr(at));
    const std::string_view character = text.substr(at, std::max<std::size_t>(length, 1));
    if (length == 0) {
      quoted += fmt::format("\\x{:02x}", ByteAt(character, 0));
    } else if (IsControl(character)) {
      quoted += fmt::format("\\u{:04x}", ControlCode(character));
    } else {
      quoted += character;
    }
    at += character.size();
  }
  return quoted + '"';
}

}  // namespace meshwright
