#include "cli/program/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

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

bool StderrIsTerminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace meshwright
