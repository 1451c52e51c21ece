#pragma once

#include "absl/status/status.h"
#include "cli/input/input_files.h"
#include "cli/program/program.h"

namespace CLI {
class App;
}

namespace meshwright {

// Adds the options that `tune` and `study create` share. `flags` must outlive `command`.
void AddTuneOptions(CLI::App& command, TuneFlags& flags);

// Adds the options of a vendor's model, which `evaluate` has too.
void AddCostModelOptions(CLI::App& command, CostModelFlags& flags);

// Returns all mistakes of a request whose JSON has mistakes: those, and the ones that the server
// would find if the request could be sent.
absl::Status RequestMistakes(const Parsed<v1::TuneRequest>& request, const GlobalFlags& flags);

}  // namespace meshwright
