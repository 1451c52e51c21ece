#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace meshwright {

// Limits on the text that CleanText returns.
struct TextForm {
  std::size_t longest_bytes = 400;
  bool keeps_lines = false;  // newlines and tabs stay, as in a log
  bool keeps_end = false;    // the end is kept and the beginning is cut, as for a log
};

// Returns a foreign program's text as it may be stored, sent and printed: as UTF-8 that is cut
// between characters. A byte that belongs to no character becomes '?', and a control character
// becomes a space, so the result is never longer than the input.
std::string CleanText(std::string_view text, const TextForm& form);

// The layout that a stated text may have.
enum class TextLayout {
  kOneLine,  // no control characters
  kLines,    // newlines and tabs, and no other control characters
};

// Returns why a stated text is refused, as the description of a FieldViolation that names its first
// byte that is not UTF-8 or its first control character (C0, DEL or C1). Returns nullopt if there
// is none. Every edge refuses such texts, so that below it no name, word or note can break a line,
// a terminal or a format.
std::optional<std::string> TextMistake(std::string_view text, TextLayout layout);

// Returns the text in quotes as a message shows it: on one line, shortened if it is long, with
// `\u001b` for a control character and `\xff` for a byte that is not UTF-8.
std::string QuotedText(std::string_view text);

}  // namespace meshwright
