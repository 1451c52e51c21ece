#include "cli/help/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/help/examples.h"

namespace meshwright {
namespace {

// Returns the text so that roff prints it as it is.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool begins_line = escaped.empty() || escaped.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string ManFlag(const FlagEntry& flag) {
  std::string name = "\\fB" + Escaped(flag.name) + "\\fR";
  if (!flag.short_name.empty()) name = "\\fB" + Escaped(flag.short_name) + "\\fR, " + name;
  if (!flag.type.empty() && flag.name.starts_with('-')) {
    name += " \\fI" + Escaped(flag.type) + "\\fR";
  }
  if (flag.is_list) name += " ...";
  return fmt::format(".TP\n{}\n{}{}\n", name, Escaped(flag.help),
                     flag.is_required ? "; required" : "");
}

std::string ManFlags(std::string_view title, const std::vector<FlagEntry>& flags) {
  if (flags.empty()) return "";
  std::string text = fmt::format(".SH {}\n", title);
  std::vector<std::string> groups = {"Options"};  // without a heading, so they come first
  for (const FlagEntry& flag : flags) {
    if (std::ranges::find(groups, flag.group) == groups.end()) groups.push_back(flag.group);
  }
  for (const std::string& group : groups) {
    if (group != "Options") text += fmt::format(".SS {}\n", Escaped(group));
    for (const FlagEntry& flag : flags) {
      if (flag.group == group) text += ManFlag(flag);
    }
  }
  return text;
}

std::string ManCommands(const CommandEntry& command) {
  if (command.commands.empty()) return "";
  std::string text = ".SH COMMANDS\n";
  for (const CommandEntry& below : command.commands) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", Escaped(below.name), Escaped(below.help));
  }
  return text;
}

std::string ManExamples(const std::string& path) {
  const std::vector<Example> examples = ExamplesOf(path);
  if (examples.empty() || path.find(' ') == std::string::npos) return "";
  std::string text = ".SH EXAMPLES\n";
  for (const Example& example : examples) {
    text += fmt::format(".PP\n{}:\n.PP\n.nf\n.RS\n{}\n.RE\n.fi\n", Escaped(example.note),
                        Escaped(example.line));
  }
  return text;
}

// The exit codes of server/process/exit_code.h.
std::string ManExitCodes() {
  constexpr auto kCodes = std::to_array<std::pair<int, std::string_view>>({
      {0, "done"},
      {1, "an error in this program"},
      {2, "the command line is wrong"},
      {3, "the input is wrong"},
      {4, "no plan fits"},
      {5, "not found"},
      {6, "conflict with what is there"},
      {7, "a budget or quota is used up"},
      {8, "a server or store cannot be used"},
      {9, "the deadline has passed"},
      {10, "trials or checks failed"},
      {130, "interrupted"},
  });
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : kCodes) text += fmt::format(".TP\n{}\n{}\n", code, meaning);
  return text;
}

}  // namespace

std::string ManPageName(const CommandEntry& command) {
  std::string name = command.path;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string ManPage(const CommandEntry& command, const CommandEntry& root,
                    const std::string& version) {
  const std::string name = ManPageName(command);
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  std::string text =
      fmt::format(".TH {} 1 \"\" \"{}\" \"Meshwright\"\n.SH NAME\n{} \\- {}\n", title,
                  version.substr(0, version.find('\n')), Escaped(name), Escaped(command.help));
  text += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR", Escaped(command.path));
  if (!command.commands.empty()) text += " \\fICOMMAND\\fR";
  for (const FlagEntry& argument : command.arguments) {
    const std::string shown = fmt::format("\\fI{}\\fR", Escaped(argument.name));
    text += argument.is_required ? " " + shown : " [" + shown + "]";
  }
  text += " [\\fIFLAGS\\fR]\n" + ManCommands(command) + ManFlags("ARGUMENTS", command.arguments);
  std::vector<FlagEntry> own = command.flags;
  std::erase_if(own, [](const FlagEntry& flag) { return flag.name == "--help"; });
  const bool is_root = command.path == root.path;
  if (!is_root) text += ManFlags("FLAGS", own);
  text += ManFlags(is_root ? "FLAGS" : "FLAGS OF EVERY COMMAND", root.flags);
  return text + ManExamples(command.path) + ManExitCodes();
}

}  // namespace meshwright
