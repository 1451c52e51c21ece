#include "server/tuner/export/text/flag_list.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

Json WordValue(const std::string& word) {
  Json value = Json::parse(word, nullptr, false);
  return value.is_number() ? value : Json(word);
}

}  // namespace

Json ValueOf(const Flag& flag) {
  if (flag.value.empty()) return true;
  if (flag.value.front() == '\'') return flag.value.substr(1, flag.value.size() - 2);
  const bool is_list =
      flag.value.find(' ') != std::string::npos || flag.name == "--recompute-modules";
  if (!is_list) return WordValue(flag.value);
  Json list = Json::array();
  std::istringstream words(flag.value);
  for (std::string word; words >> word;) list.push_back(WordValue(word));
  return list;
}

void FlagList::Add(std::string_view flag) { flags_.push_back({.name = std::string(flag)}); }

void FlagList::Add(std::string_view flag, int value) { Add(flag, fmt::format("{}", value)); }

void FlagList::Add(std::string_view flag, double value) { Add(flag, fmt::format("{}", value)); }

void FlagList::Add(std::string_view flag, std::string_view value) {
  flags_.push_back({.name = std::string(flag), .value = std::string(value)});
}

void FlagList::Refuse(std::string_view field, std::string description) {
  refusals_.Refuse(field, std::move(description));
}

std::string FlagList::Text() const {
  std::string text;
  for (const Flag& flag : flags_) {
    if (!text.empty()) text += " \\\n";
    text += flag.value.empty() ? flag.name : fmt::format("{} {}", flag.name, flag.value);
  }
  return text + "\n";
}

}  // namespace meshwright
