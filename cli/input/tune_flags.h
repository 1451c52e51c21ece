#pragma once

#include "absl/status/status.h"
#include "cli/input/input_files.h"
#include "cli/program/program.h"

namespace CLI {
class App;
}

namespace meshwright {

// What `tune` and `study create` share. `flags` outlives `command`.
void AddQuestionOptions(CLI::App& command, TuneFlags& flags);

// The same of `evaluate`.
void AddCostModelOptions(CLI::App& command, CostModelFlags& flags);

// Everything that is wrong with a request whose JSON has mistakes: those, and the mistakes that the
// server would find, which cannot see the request.
absl::Status RequestMistakes(const Parsed<v1::TuneRequest>& request, const GlobalFlags& flags);

}  // namespace meshwright
