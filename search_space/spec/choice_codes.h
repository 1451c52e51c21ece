#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "search_space/spec/choices.h"

namespace meshwright {

// Closed sets as numbers, for tables whose rows have sets of different types: a word is coded by
// its enumerator, and "false" and "true" by 0 and 1.

template <typename Enum>
std::optional<int> CodeOf(std::string_view word) {
  const auto value = ParseChoice<Enum>(word);
  return value.has_value() ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

template <typename Enum>
std::string_view WordOfCode(int code) {
  return Word(static_cast<Enum>(code));
}

inline std::optional<int> TruthOf(std::string_view word) {
  if (word == "false") return 0;
  return word == "true" ? std::optional(1) : std::nullopt;
}

inline std::string_view WordOfTruth(int code) { return code == 0 ? "false" : "true"; }

inline std::string Truths() { return "false, true"; }

}  // namespace meshwright
