#pragma once

#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/tune_report.h"
#include "proto/json/json.h"
#include "proto/json/text_fields.h"
#include "server/process/exit_code.h"

namespace meshwright {

// Returns an answer as a terminal may get it: names and notes in it may be other people's, and logs
// other programs'. JSON does not need this, because it escapes control characters.
template <typename Response>
Response ForTerminal(Response response) {
  CleanTexts(response);
  return response;
}

// Returns the notes of a report to the terminal.
inline ReportNotes NotesForTerminal(bool is_verbose) {
  return {.has_color = StdoutHasColor(), .columns = StdoutColumns(), .is_verbose = is_verbose};
}

// Prints a message as JSON, or as `text` shows it to people, or the error; returns the exit code.
template <typename Response>
int Print(const absl::StatusOr<Response>& response, OutputForm output,
          std::string (*text)(const std::type_identity_t<Response>&)) {
  if (!response.ok()) return Fail(response.status(), output);
  PrintData(output == OutputForm::kJson ? PrintJson(*response, {.multiline = true}) + "\n"
                                        : text(ForTerminal(*response)));
  return kExitDone;
}

}  // namespace meshwright
