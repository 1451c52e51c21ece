#include "cli/reports/launch_lines.h"

#include <fmt/format.h>

#include <cstddef>

#include "cli/reports/table.h"
#include "cli/reports/wrap.h"

namespace meshwright {
namespace {

// Returns a command of the shell in lines that it reads as one; no line break at the end.
std::string CommandLines(const std::string& command, int columns) {
  std::string lines = Wrapped(command, columns - 2, "", "    ");
  lines.pop_back();
  for (std::size_t at = lines.find('\n'); at != std::string::npos; at = lines.find('\n', at + 3)) {
    lines.insert(at, " \\");
  }
  return lines;
}

}  // namespace

std::string ExportText(const v1::RankedPlan& ranked, const std::string& framework, int columns) {
  const std::string& text = ranked.exports().at(framework);
  const auto found = ranked.launches().find(framework);
  if (found == ranked.launches().end()) return text;
  const v1::Launch& launch = found->second;
  std::string files;
  for (const v1::ConfigFile& file : launch.other_files()) {
    files += fmt::format("\n{}:\n{}", file.name(), file.text());
  }
  const std::string command = CommandLines(launch.command(), columns);
  // Flags continue the line of the command, so that both can be copied at once.
  if (launch.file_name().empty()) return fmt::format("{} \\\n{}{}", command, text, files);
  return fmt::format("{}:\n{}{}\n{}\n", launch.file_name(), text, files, command);
}

std::string LaunchNotes(const v1::RankedPlan& ranked, const std::string& framework, int columns) {
  const auto found = ranked.launches().find(framework);
  if (found == ranked.launches().end()) return "";
  const v1::Launch& launch = found->second;
  std::string lines = fmt::format("For {} {}.", framework, launch.versions());
  if (launch.command().find("$MASTER_ADDR") != std::string::npos) {
    lines += " Run the command on every node, with the first one as MASTER_ADDR.";
  }
  lines = Wrapped(lines, columns);
  if (launch.left_out().empty()) return lines;
  lines += launch.file_name().empty() ? "Not among these flags:\n" : "Not in this file:\n";
  for (const std::string& item : launch.left_out()) {
    lines += Wrapped(item, columns, kIndent, std::string(kIndent) + kIndent);
  }
  return lines;
}

}  // namespace meshwright
