#include "cli/help/command_tree.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>

namespace meshwright {
namespace {

// A validator adds its own words behind a colon: "INT:INT in [1 - 1024]".
std::string TypeOf(const CLI::Option& option) {
  if (option.get_type_size() == 0) return "";
  const std::string type = option.get_type_name();
  return type.starts_with('{') ? type : type.substr(0, type.find(':'));
}

std::vector<std::string> ChoicesIn(const std::string& type) {
  std::vector<std::string> choices;
  if (!type.starts_with('{') || !type.ends_with('}')) return choices;
  std::istringstream words(type.substr(1, type.size() - 2));
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

CommandEntry BranchOf(const CLI::App& app, const std::string& parent) {
  CommandEntry entry = {.path = parent.empty() ? app.get_name() : parent + " " + app.get_name(),
                        .name = app.get_name(),
                        .help = app.get_description(),
                        .topic = app.get_group()};
  for (const CLI::Option* const option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    (option->get_positional() ? entry.arguments : entry.flags).push_back(EntryOf(*option));
  }
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    entry.commands.push_back(BranchOf(*command, entry.path));
  }
  return entry;
}

}  // namespace

FlagEntry EntryOf(const CLI::Option& option) {
  FlagEntry entry = {.name = option.get_name(option.get_positional(), false),
                     .type = TypeOf(option),
                     .group = option.get_group(),
                     .help = option.get_description(),
                     .is_required = option.get_required(),
                     .is_list = option.get_items_expected_max() > 1};
  if (!option.get_snames().empty()) entry.short_name = "-" + option.get_snames().front();
  if (!option.get_lnames().empty()) entry.name = "--" + option.get_lnames().front();
  entry.choices = ChoicesIn(entry.type);
  if (!option.get_default_str().empty()) {
    entry.help += fmt::format(" (default: {})", option.get_default_str());
  }
  for (const CLI::Option* const needed : option.get_needs()) {
    entry.help += fmt::format("; needs {}", needed->get_name());
  }
  return entry;
}

CommandEntry TreeOf(const CLI::App& root) { return BranchOf(root, ""); }

}  // namespace meshwright
