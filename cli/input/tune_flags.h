#pragma once

#include "absl/status/status.h"
#include "cli/input/input_files.h"
#include "cli/input/launch_file.h"
#include "cli/program/program.h"

namespace CLI {
class App;
}

namespace meshwright {

// Adds the options that `tune` and `study create` share. `flags` must outlive `command`.
void AddQuestionOptions(CLI::App& command, TuneFlags& flags);

// Adds --from and --set, without a check that --from is stated.
void AddLaunchFileOptions(CLI::App& command, LaunchFileFlags& flags);

// Adds --from, --set and the files beside a launch script.
void AddLaunchCaseOptions(CLI::App& command, LaunchCaseFlags& flags);

// Adds the options of a vendor's model, which `evaluate` has too.
void AddCostModelOptions(CLI::App& command, CostModelFlags& flags);

// Returns all mistakes of a request whose JSON has mistakes: those, and the ones that the server
// would find if the request could be sent.
absl::Status RequestMistakes(const Parsed<v1::TuneRequest>& request, const GlobalFlags& flags);

}  // namespace meshwright
