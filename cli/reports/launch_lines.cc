#include "cli/reports/launch_lines.h"

#include <fmt/format.h>

#include <cstddef>
#include <sstream>

#include "cli/reports/table.h"

namespace meshwright {
namespace {

constexpr std::size_t kColumns = 100;

// Returns the item in indented lines; the second and later ones are indented twice.
std::string Wrapped(const std::string& item) {
  std::string lines;
  std::string line;
  std::istringstream words(item);
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line.clear();
    }
    if (line.empty()) {
      line = lines.empty() ? kIndent + word : std::string(kIndent) + kIndent + word;
    } else {
      line += " " + word;
    }
  }
  return lines + line + "\n";
}

}  // namespace

std::string ExportText(const v1::RankedPlan& ranked, const std::string& framework) {
  const std::string& text = ranked.exports().at(framework);
  const auto found = ranked.launches().find(framework);
  if (found == ranked.launches().end()) return text;
  const v1::Launch& launch = found->second;
  std::string files;
  for (const v1::ConfigFile& file : launch.other_files()) {
    files += fmt::format("\n{}:\n{}", file.name(), file.text());
  }
  // Flags continue the line of the command, so that both can be copied at once.
  if (launch.file_name().empty()) return fmt::format("{} \\\n{}{}", launch.command(), text, files);
  return fmt::format("{}:\n{}{}\n{}\n", launch.file_name(), text, files, launch.command());
}

std::string LaunchNotes(const v1::RankedPlan& ranked, const std::string& framework) {
  const auto found = ranked.launches().find(framework);
  if (found == ranked.launches().end()) return "";
  const v1::Launch& launch = found->second;
  std::string lines = fmt::format("For {} {}.", framework, launch.versions());
  if (launch.command().find("$MASTER_ADDR") != std::string::npos) {
    lines += " Run the command on every node, with the first one as MASTER_ADDR.";
  }
  lines += "\n";
  if (launch.left_out().empty()) return lines;
  lines += launch.file_name().empty() ? "Not among these flags:\n" : "Not in this file:\n";
  for (const std::string& item : launch.left_out()) lines += Wrapped(item);
  return lines;
}

}  // namespace meshwright
