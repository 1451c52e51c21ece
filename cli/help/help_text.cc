#include "cli/help/help_text.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help/command_tree.h"
#include "cli/help/examples.h"
#include "cli/program/terminal.h"
#include "cli/reports/wrap.h"

namespace meshwright {
namespace {

constexpr std::size_t kNameColumns = 30;  // of a name with its type
constexpr std::size_t kMaxExamples = 4;

struct TopicRow {
  std::string_view command;
  std::string_view topic;
};

constexpr std::string_view kPlans = "Plans";
constexpr std::string_view kRuns = "Runs and history";
constexpr std::string_view kChips = "Chips and cost models";
constexpr std::string_view kServers = "Server and dashboard";
constexpr std::string_view kShell = "Shell";

constexpr auto kTopics = std::to_array<TopicRow>({
    {"init", kPlans},        {"tune", kPlans},      {"place", kPlans},      {"evaluate", kPlans},
    {"compare", kPlans},     {"explain", kPlans},   {"export", kPlans},     {"trace", kPlans},
    {"history", kRuns},      {"study", kRuns},      {"job", kRuns},         {"refit", kRuns},
    {"chip", kChips},        {"calibrate", kChips}, {"model", kChips},      {"server", kServers},
    {"dashboard", kServers}, {"report", kServers},  {"completion", kShell}, {"man", kShell},
});

std::string PathOf(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  return parent == nullptr ? app.get_name() : PathOf(*parent) + " " + app.get_name();
}

// Returns a row of a name and its help, in two columns.
std::string Row(const std::string& name, const std::string& help) {
  const std::string left = "  " + name;
  const std::string indent(kNameColumns, ' ');
  if (left.size() + 2 > kNameColumns) {
    return left + "\n" + Wrapped(help, StdoutColumns(), indent, indent);
  }
  return Wrapped(help, StdoutColumns(), left + indent.substr(left.size()), indent);
}

std::string Row(const FlagEntry& flag) {
  std::string name = flag.short_name.empty() ? flag.name : flag.short_name + ", " + flag.name;
  if (!flag.type.empty() && flag.name.starts_with('-')) name += " " + flag.type;
  if (flag.is_list) name += " ...";
  return Row(name, flag.help + (flag.is_required ? "; required" : ""));
}

std::string Section(std::string_view title, const std::vector<FlagEntry>& flags) {
  std::string text = fmt::format("\n{}:\n", title);
  for (const FlagEntry& flag : flags) text += Row(flag);
  return text;
}

class HelpFormatter final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string /*name*/,
                        CLI::AppFormatMode /*mode*/) const override {
    const std::string path = PathOf(*app);
    std::string text = Wrapped(app->get_description(), StdoutColumns()) + "\n";
    text += Usage(*app, path) + Arguments(*app) + Flags(*app) + Commands(*app) + Examples(path);
    const CLI::App* root = app;
    while (root->get_parent() != nullptr) root = root->get_parent();
    return text + Section("Flags of every command", FlagsIn(*root, ""));
  }

 private:
  static std::vector<FlagEntry> FlagsIn(const CLI::App& app, const std::string& group) {
    std::vector<FlagEntry> flags;
    for (const CLI::Option* const option : app.get_options()) {
      const bool is_wanted = group.empty() || option->get_group() == group;
      if (option->nonpositional() && is_wanted) flags.push_back(EntryOf(*option));
    }
    return flags;
  }

  static std::vector<FlagEntry> ArgumentsOf(const CLI::App& app) {
    std::vector<FlagEntry> arguments;
    for (const CLI::Option* const option : app.get_options()) {
      if (option->get_positional()) arguments.push_back(EntryOf(*option));
    }
    return arguments;
  }

  static std::string Usage(const CLI::App& app, const std::string& path) {
    std::string usage = "Usage: " + path;
    if (!app.get_subcommands([](const CLI::App*) { return true; }).empty()) usage += " COMMAND";
    for (const FlagEntry& argument : ArgumentsOf(app)) {
      usage += argument.is_required ? " " + argument.name : " [" + argument.name + "]";
    }
    return usage + " [FLAGS]\n";
  }

  static std::string Arguments(const CLI::App& app) {
    const std::vector<FlagEntry> arguments = ArgumentsOf(app);
    return arguments.empty() ? "" : Section("Arguments", arguments);
  }

  // The flags of the root follow as those of every command, and so does --help.
  static std::string Flags(const CLI::App& app) {
    std::string text;
    if (app.get_parent() == nullptr) return text;
    for (const std::string& group : app.get_groups()) {
      std::vector<FlagEntry> flags = FlagsIn(app, group);
      std::erase_if(flags, [](const FlagEntry& flag) { return flag.name == "--help"; });
      if (!flags.empty()) text += Section(group == "Options" ? "Flags" : group, flags);
    }
    return text;
  }

  static std::string Commands(const CLI::App& app) {
    const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
    std::vector<std::string> topics;
    for (const CLI::App* const command : commands) {
      if (std::ranges::find(topics, command->get_group()) == topics.end()) {
        topics.push_back(command->get_group());
      }
    }
    std::string text;
    for (const std::string& topic : topics) {
      text += fmt::format("\n{}:\n", topic == "Subcommands" ? "Commands" : topic);
      for (const CLI::App* const command : commands) {
        if (command->get_group() != topic) continue;
        text += Row(command->get_name(), command->get_description());
      }
    }
    return text;
  }

  static std::string Examples(const std::string& path) {
    if (path.find(' ') == std::string::npos) return "";  // the root would show those of all
    std::vector<Example> examples = ExamplesOf(path);
    if (examples.empty()) return "";
    if (examples.size() > kMaxExamples) examples.resize(kMaxExamples);
    std::string text = "\nExamples:\n";
    for (const Example& example : examples) {
      text += fmt::format("  # {}\n  {}\n", example.note, example.line);
    }
    return text;
  }
};

void Describe(CLI::App& app, const std::shared_ptr<HelpFormatter>& formatter) {
  app.formatter(formatter);
  for (CLI::App* const command : app.get_subcommands([](CLI::App*) { return true; })) {
    Describe(*command, formatter);
  }
}

}  // namespace

void DescribeCommands(CLI::App& root) {
  Describe(root, std::make_shared<HelpFormatter>());
  for (CLI::App* const command : root.get_subcommands([](CLI::App*) { return true; })) {
    for (const TopicRow& row : kTopics) {
      if (row.command == command->get_name()) command->group(std::string(row.topic));
    }
  }
}

}  // namespace meshwright
