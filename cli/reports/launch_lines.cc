#include "cli/reports/launch_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
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

std::string ExportText(const v1::RankedPlan& ranked, const std::string& framework, int columns) {
  const std::string& text = ranked.exports().at(framework);
  const auto found = ranked.launches().find(framework);
  if (found == ranked.launches().end()) return text;
  const v1::Launch& launch = found->second;
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
