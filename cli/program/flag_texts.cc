#include "cli/program/flag_texts.h"

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "search_space/base/clean_text.h"

namespace meshwright {
namespace {

constexpr std::string_view kFlagOfLines = "--note";

void Check(const CLI::Option& option, std::vector<FieldViolation>& found) {
  const std::string name = option.get_name();
  const TextLayout layout = name == kFlagOfLines ? TextLayout::kLines : TextLayout::kOneLine;
  for (const std::string& value : option.results()) {
    auto mistake = TextMistake(value, layout);
    if (!mistake.has_value()) continue;
    found.push_back({.field = name, .description = *std::move(mistake)});
  }
}

}  // namespace

std::vector<FieldViolation> FlagTextMistakes(const CLI::App& app) {
  std::vector<FieldViolation> found;
  for (const CLI::Option* const option : app.get_options()) Check(*option, found);
  for (const CLI::App* const command : app.get_subcommands()) {
    for (FieldViolation& mistake : FlagTextMistakes(*command)) found.push_back(std::move(mistake));
  }
  return found;
}

}  // namespace meshwright
