#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/input/input_files.h"
#include "cli/program/program.h"

namespace meshwright {

// Flags of `tune` that ask for several answers at once.
struct SweepFlags {
  std::string devices = {};              // "64..1024" (doubled), "64,96,128"; empty: the cluster's
  std::vector<double> free_memory = {};  // ratios; empty: 0
};

// Parses a list or range of device counts. INVALID_ARGUMENT names what is wrong.
absl::StatusOr<std::vector<int>> DeviceCounts(const std::string& text);

// Runs the sweep, prints it and returns the exit code.
int RunSweepCommand(const TuneFlags& question, const SweepFlags& sweep, const GlobalFlags& flags);

}  // namespace meshwright
