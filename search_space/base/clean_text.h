#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace meshwright {

// What is left of a text.
struct TextForm {
  std::size_t longest_bytes = 400;
  bool keeps_lines = false;  // of a log: newlines and tabs stay
  bool keeps_end = false;    // of a log: the beginning is cut, not the end
};

// A foreign program's text as it may be stored, sent and printed: UTF-8 that is cut between
// characters. Each byte that is no part of a character becomes '?', a control character a space; so
// it is never longer than it was.
std::string CleanText(std::string_view text, const TextForm& form);

}  // namespace meshwright
