#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/program/program.h"

namespace meshwright {

// Prints data to stdout; everything else goes to stderr.
void PrintData(std::string_view text);
// Prints one line for people, in place of an unfinished line of the terminal.
void PrintNote(std::string_view text);
void PrintNotes(const std::vector<std::string>& lines);

// Prints one line for each wrong field, or one line; under kJson {"error":{reason, message,
// fields}}.
void PrintError(const absl::Status& status, OutputForm output);

// Prints the error and returns the exit code of the status.
int Fail(const absl::Status& status, OutputForm output);

// Returns true if text on stdout is to have colours.
bool StdoutHasColor(ColorUse use);

// Returns the columns of the terminal on stderr whose current line can be overwritten; nullopt if
// stderr is no terminal, or one that only prints (TERM=dumb).
std::optional<int> StderrLineColumns();

// Writes over the current line of the terminal on stderr, so that `text` is all of it; writes
// nothing if stderr has no such line. It may be called while other threads print.
void OverwriteStderrLine(std::string_view text);

// Returns the columns of a line for people: those of COLUMNS, else of the terminal, else 100; at
// least 60.
int StdoutColumns();

}  // namespace meshwright
