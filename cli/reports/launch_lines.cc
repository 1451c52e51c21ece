#include "cli/reports/launch_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/reports/table.h"
#include "cli/reports/wrap.h"

namespace meshwright {
namespace {

constexpr int kContinuedColumns = 2;  // of " \\"

// Returns lines as the shell reads them as one; no line break at the end.
std::string Continued(std::string lines) {
  lines.pop_back();
  for (std::size_t at = lines.find('\n'); at != std::string::npos; at = lines.find('\n', at + 3)) {
    lines.insert(at, " \\");
  }
  return lines;
}

// Returns flags with several in a line. Their text has one in each line, with " \\" after all but
// the last.
std::string FlagLines(const std::string& text, int columns) {
  std::vector<std::string> flags;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(" \\")) line.resize(line.size() - kContinuedColumns);
    flags.push_back(line);
  }
  return Continued(WrappedItems(flags, "", columns - kContinuedColumns, kIndent));
}

// Says for which versions a launch is, and where its command runs.
std::string UseText(const v1::Launch& launch, const std::string& framework) {
  std::string text =
      fmt::format("{} for {} {}.", launch.file_name().empty() ? "These flags are" : "This file is",
                  framework, launch.versions());
  if (launch.command().find("$MASTER_ADDR") != std::string::npos) {
    text += " Run the command on every node, with the first one as MASTER_ADDR.";
  }
  return text;
}

// Returns the first lines of a text that has more than people read, as a host file may, and says
// where the others are.
std::string FirstLines(const std::string& text) {
  constexpr std::ptrdiff_t kMostLines = 40;
  constexpr int kShownLines = 8;  // at the beginning
  const std::ptrdiff_t lines = std::ranges::count(text, '\n');
  if (lines <= kMostLines) return text;
  std::size_t end = 0;
  for (int i = 0; i < kShownLines; ++i) end = text.find('\n', end) + 1;
  return fmt::format("{}({} more lines; --save and --output json have them)\n", text.substr(0, end),
                     lines - kShownLines);
}

// Returns true for the title of a table in TOML: "[parallelism]".
bool IsTitle(std::string_view line) { return line.starts_with('[') && line.ends_with(']'); }

// Returns the mark between a setting and the next line of a file.
std::string_view MarkAfter(std::string_view line, std::string_view next) {
  constexpr std::string_view kOpen = ":{[,";
  if (next.empty() || next.starts_with('}') || next.starts_with(']')) return "";
  if (IsTitle(line) || kOpen.find(line.back()) != kOpen.npos) return "";
  return IsTitle(next) ? ";" : ",";
}

// Returns the settings of a file with several in a line, without their indents. Of a setting that
// lists the layers of every stage, only the beginning is shown.
std::string ShortFile(const std::string& text, int columns) {
  std::vector<std::string> items;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (!line.empty()) items.push_back(std::move(line));
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    constexpr std::size_t kMost = 100;
    const std::string mark(MarkAfter(items[i], i + 1 < items.size() ? items[i + 1] : ""));
    if (items[i].size() > kMost) items[i] = items[i].substr(0, items[i].rfind(' ', kMost)) + " ...";
    items[i] += mark;
  }
  return WrappedItems(items, "", columns, kIndent);
}

// Returns the plan's own file in short, with the names of the files beside it, and says where all
// of them are whole.
std::string ShortFiles(const v1::Launch& launch, const std::string& text, int columns) {
  std::vector<std::string> names = {launch.file_name()};
  for (const v1::ConfigFile& file : launch.other_files()) names.push_back(file.name());
  return Wrapped(fmt::format("{}, in short (--save DIR writes {}, --verbose shows {}):",
                             fmt::join(names, ", "), names.size() == 1 ? "it" : "them",
                             names.size() == 1 ? "it" : "them"),
                 columns) +
         ShortFile(text, columns);
}

const char* PlaceOf(const v1::Launch& launch) {
  return launch.file_name().empty() ? "among these flags" : "in this file";
}

}  // namespace

std::string LaunchCommand(const v1::RankedPlan& ranked, const std::string& framework, int columns) {
  const v1::Launch& launch = ranked.launches().at(framework);
  const std::string command =
      Continued(Wrapped(launch.command(), columns - kContinuedColumns, "", "    "));
  if (!launch.file_name().empty()) return command + "\n";
  return fmt::format("{} \\\n{}\n", command, FlagLines(ranked.exports().at(framework), columns));
}

std::string ExportText(const v1::RankedPlan& ranked, const std::string& framework, int columns,
                       FileForm form) {
  const std::string& text = ranked.exports().at(framework);
  const auto found = ranked.launches().find(framework);
  if (found == ranked.launches().end()) return text;
  const v1::Launch& launch = found->second;
  if (form == FileForm::kShort && !launch.file_name().empty()) {
    return ShortFiles(launch, text, columns) + LaunchCommand(ranked, framework, columns);
  }
  std::string files;
  for (const v1::ConfigFile& file : launch.other_files()) {
    files += fmt::format("\n{}:\n{}", file.name(), FirstLines(file.text()));
  }
  const std::string command = LaunchCommand(ranked, framework, columns);
  if (launch.file_name().empty()) return command + files;
  return fmt::format("{}:\n{}{}\n{}", launch.file_name(), text, files, command);
}

std::string LaunchNotes(const v1::RankedPlan& ranked, const std::string& framework, int columns) {
  const auto found = ranked.launches().find(framework);
  if (found == ranked.launches().end()) return "";
  const v1::Launch& launch = found->second;
  std::string lines = Wrapped(UseText(launch, framework), columns);
  if (launch.left_out().empty()) return lines;
  lines += fmt::format("Not {}:\n", PlaceOf(launch));
  for (const std::string& item : launch.left_out()) {
    lines += Wrapped(item, columns, kIndent, std::string(kIndent) + kIndent);
  }
  return lines;
}

std::string ShortLaunchNotes(const v1::RankedPlan& ranked, const std::string& framework) {
  const auto found = ranked.launches().find(framework);
  if (found == ranked.launches().end()) return "";
  const v1::Launch& launch = found->second;
  if (launch.left_out().empty()) return UseText(launch, framework);
  return fmt::format("{} What else a run needs is not {}; --verbose lists it.",
                     UseText(launch, framework), PlaceOf(launch));
}

}  // namespace meshwright
