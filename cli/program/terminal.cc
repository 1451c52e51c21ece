#include "cli/program/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cli/program/exit_code.h"
#include "proto/json/json.h"
#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"

namespace meshwright {

void PrintData(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintNote(std::string_view text) {
  fmt::print(stderr, "{}\n", CleanText(text, {.longest_bytes = text.size(), .keeps_lines = true}));
}

void PrintNotes(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) PrintNote(line);
}

void PrintError(const absl::Status& status, OutputForm output) {
  if (output == OutputForm::kJson) {
    v1::FailedCase failed;
    *failed.mutable_error() = ToCaseError(status);
    PrintNote(PrintJson(failed, {}));
    return;
  }
  const auto violations = FieldViolations(status);
  for (const FieldViolation& violation : violations) {
    PrintNote(fmt::format("error: {} = {}", violation.field, violation.description));
  }
  if (violations.empty()) PrintNote(fmt::format("error: {}", std::string(status.message())));
}

int Fail(const absl::Status& status, OutputForm output) {
  PrintError(status, output);
  return ExitCode(status);
}

bool StdoutHasColor() {
  const char* const no_color = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
}

int StdoutColumns() {
  constexpr int kUsual = 100;
  constexpr int kLeast = 60;
  constexpr int kMost = 1000;
  int columns = 0;
  if (const char* const stated = std::getenv("COLUMNS"); stated != nullptr) {
    const std::string_view text(stated);
    std::from_chars(text.data(), text.data() + text.size(), columns);
  }
  winsize size = {};
  if (columns <= 0 && isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    columns = size.ws_col;
  }
  return columns <= 0 ? kUsual : std::clamp(columns, kLeast, kMost);
}

bool StderrIsTerminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace meshwright
