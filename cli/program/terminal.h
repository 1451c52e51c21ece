#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "cli/program/program.h"

namespace meshwright {

// Data goes to stdout, all else to stderr.
void PrintData(std::string_view text);
void PrintNote(std::string_view text);  // one line, for people

// One wrong field a line, or one line; under kJson {"error":{reason, message, fields}}.
void PrintError(const absl::Status& status, OutputForm output);

// PrintError and the exit code of the status.
int Fail(const absl::Status& status, OutputForm output);

// Whether stdout is a terminal whose user has not switched colours off (https://no-color.org).
bool StdoutHasColor();
bool StderrIsTerminal();

}  // namespace meshwright
