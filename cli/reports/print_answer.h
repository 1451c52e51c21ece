#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/program/exit_code.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "proto/json/json.h"

namespace meshwright {

// Prints a message as JSON or as `text` has it for people, or the error; gives the exit code.
template <typename Response>
int Print(const absl::StatusOr<Response>& response, OutputForm output,
          std::string (*text)(const Response&)) {
  if (!response.ok()) return Fail(response.status(), output);
  PrintData(output == OutputForm::kJson ? PrintJson(*response, {.multiline = true}) + "\n"
                                        : text(*response));
  return kExitDone;
}

}  // namespace meshwright
