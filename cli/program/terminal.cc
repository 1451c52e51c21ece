#include "cli/program/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cli/program/answer_head.h"
#include "cli/program/exit_code.h"
#include "cli/program/field_names.h"
#include "proto/json/json.h"
#include "search_space/base/clean_text.h"
#include "server/convert/convert.h"

namespace meshwright {
namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";  // ECMA-48: erase to the end of the line

std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns true for a terminal that understands more than text.
bool IsScreen(int file) {
  const std::string_view terminal = Variable("TERM");
  return isatty(file) == 1 && !terminal.empty() && terminal != "dumb";
}

// Returns the columns that COLUMNS states; 0 if it states none.
int StatedColumns() {
  const std::string_view text = Variable("COLUMNS");
  int columns = 0;
  std::from_chars(text.data(), text.data() + text.size(), columns);
  return columns;
}

// Returns the columns of a terminal; 0 if it is none, or does not say.
int TerminalColumns(int file) {
  winsize size = {};
  return isatty(file) == 1 && ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

void PrintData(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintNote(std::string_view text) {
  OverwriteStderrLine("");
  fmt::print(stderr, "{}\n", CleanText(text, {.longest_bytes = text.size(), .keeps_lines = true}));
}

void PrintNotes(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) PrintNote(line);
}

void PrintError(const absl::Status& status, OutputForm output) {
  if (output == OutputForm::kJson) {
    v1::FailedCase failed;
    *failed.mutable_error() = ToCaseError(status);
    PrintNote(WithHead(HeadOf(ExitCode(status)), PrintJson(failed, {})));
    return;
  }
  const std::vector<std::string> lines = MistakeLines(status);
  for (const std::string& line : lines) PrintNote("error: " + line);
  if (lines.empty()) PrintNote(fmt::format("error: {}", std::string(status.message())));
}

int Fail(const absl::Status& status, OutputForm output) {
  PrintError(status, output);
  return ExitCode(status);
}

bool StdoutHasColor(ColorUse use) {
  if (use != ColorUse::kAuto) return use == ColorUse::kAlways;
  return IsScreen(STDOUT_FILENO) && Variable("NO_COLOR").empty();
}

int StdoutColumns() {
  constexpr int kUsual = 100;
  constexpr int kLeast = 60;
  constexpr int kMost = 1000;
  int columns = StatedColumns();
  if (columns <= 0) columns = TerminalColumns(STDOUT_FILENO);
  return columns <= 0 ? kUsual : std::clamp(columns, kLeast, kMost);
}

// The size of the window comes first here, because a line that is too long by one column cannot be
// overwritten any more, and COLUMNS does not follow the window.
std::optional<int> StderrLineColumns() {
  constexpr int kUsual = 80;
  if (!IsScreen(STDERR_FILENO)) return std::nullopt;
  int columns = TerminalColumns(STDERR_FILENO);
  if (columns <= 0) columns = StatedColumns();
  return columns <= 0 ? kUsual : columns;
}

// One call of write is one piece on the terminal, and needs no lock that another thread may hold.
void OverwriteStderrLine(std::string_view text) {
  if (!StderrLineColumns().has_value()) return;
  const std::string line = std::string(kClearLine).append(text);
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace meshwright
