#include "cli/program/suggestion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "proto/json/closest_word.h"

namespace meshwright {
namespace {

std::string_view Unquoted(std::string_view word) {
  const bool is_quoted = word.size() >= 2 && word.front() == word.back() &&
                         (word.front() == '"' || word.front() == '\'');
  return is_quoted ? word.substr(1, word.size() - 2) : word;
}

std::vector<std::string_view> WordsIn(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(", "), list.size());
    words.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 2, list.size()));
  }
  return words;
}

}  // namespace

std::string SuggestionFor(std::string_view mistake) {
  constexpr std::string_view kList = "; must be one of ";
  const std::size_t at = mistake.find(kList);
  if (at == std::string_view::npos) return "";
  const std::string_view list = mistake.substr(at + kList.size());
  const std::vector<std::string_view> words = WordsIn(list.substr(0, list.find(';')));
  const std::string_view given = Unquoted(mistake.substr(0, at));
  if (given.empty() || words.size() < 2) return "";
  const std::optional<std::string_view> closest = ClosestWord(given, words);
  return closest.has_value() ? fmt::format("; did you mean \"{}\"?", *closest) : "";
}

}  // namespace meshwright
