#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/program/program.h"

namespace meshwright {

// Prints data to stdout; everything else goes to stderr.
void PrintData(std::string_view text);
void PrintNote(std::string_view text);  // one line, for people
void PrintNotes(const std::vector<std::string>& lines);

// Prints one line for each wrong field, or one line; under kJson {"error":{reason, message,
// fields}}.
void PrintError(const absl::Status& status, OutputForm output);

// Prints the error and returns the exit code of the status.
int Fail(const absl::Status& status, OutputForm output);

// Returns true if stdout is a terminal whose user has not switched colours off
// (https://no-color.org).
bool StdoutHasColor();
bool StderrIsTerminal();

// Returns the columns of a line for people: those of COLUMNS, else of the terminal, else 100; at
// least 60.
int StdoutColumns();

}  // namespace meshwright
