#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "cli/program/answer_head.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/tune_report.h"
#include "meshwright/v1/service.pb.h"
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
ReportNotes NotesForTerminal(const GlobalFlags& flags);

// Prints an answer as JSON after its head.
void PrintJsonAnswer(const google::protobuf::Message& answer, const v1::AnswerHead& head);
void PrintJsonAnswer(const google::protobuf::Message& answer);  // of a command that has done it

// Prints a message as JSON, or as `text` shows it to people, or the error; returns the exit code,
// which is `exit_code` if there is no error.
template <typename Response, typename Text>
int PrintAs(const absl::StatusOr<Response>& response, OutputForm output, const Text& text,
            int exit_code = kExitDone) {
  if (!response.ok()) return Fail(response.status(), output);
  if (output == OutputForm::kJson) {
    PrintJsonAnswer(*response, HeadOf(exit_code));
  } else {
    PrintData(text(ForTerminal(*response)));
  }
  return exit_code;
}
template <typename Response>
int Print(const absl::StatusOr<Response>& response, OutputForm output,
          std::string (*text)(const std::type_identity_t<Response>&), int exit_code = kExitDone) {
  return PrintAs(response, output, text, exit_code);
}
// The same with a text in lines of at most so many columns.
template <typename Response>
int Print(const absl::StatusOr<Response>& response, OutputForm output,
          std::string (*text)(const std::type_identity_t<Response>&, int columns)) {
  return PrintAs(response, output,
                 [text](const Response& shown) { return text(shown, StdoutColumns()); });
}

// The same for a page of a list, which also has a form as CSV. There, the token of the next page
// goes to stderr.
template <typename Response>
int PrintList(const absl::StatusOr<Response>& response, OutputForm output,
              std::string (*text)(const std::type_identity_t<Response>&, int columns),
              std::string (*csv)(const std::type_identity_t<Response>&)) {
  if (!response.ok() || output != OutputForm::kCsv) return Print(response, output, text);
  PrintData(csv(ForTerminal(*response)));
  if (!response->next_page_token().empty()) {
    PrintNote("more: --page-token " + response->next_page_token());
  }
  return kExitDone;
}

}  // namespace meshwright
