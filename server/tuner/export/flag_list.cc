#include "server/tuner/export/flag_list.h"

#include <fmt/format.h>

#include <utility>

namespace meshwright {

void FlagList::Add(std::string_view flag) { lines_.emplace_back(flag); }

void FlagList::Add(std::string_view flag, int value) {
  lines_.push_back(fmt::format("{} {}", flag, value));
}

void FlagList::Add(std::string_view flag, double value) {
  lines_.push_back(fmt::format("{} {}", flag, value));
}

void FlagList::Add(std::string_view flag, std::string_view value) {
  lines_.push_back(fmt::format("{} {}", flag, value));
}

void FlagList::Refuse(std::string_view field, std::string description) {
  refused_.push_back({.field = std::string(field), .description = std::move(description)});
}

absl::StatusOr<std::string> FlagList::Text() && {
  if (!refused_.empty()) return WithReason(InvalidFields(refused_), "NOT_EXPRESSIBLE");
  return fmt::format("{}\n", fmt::join(lines_, " \\\n"));
}

}  // namespace meshwright
