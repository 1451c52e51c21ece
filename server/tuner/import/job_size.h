#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/tuner/import/setting_reader.h"

namespace meshwright {

// The processes of a job, one for each device, as far as its command or its file says.
struct JobProcesses {
  std::optional<int> nodes = {};
  std::optional<int> of_node = {};
  std::optional<int> all = {};
  // The variable without a value that a size depends on: "$NNODES".
  std::string unresolved = {};

  // Returns the number of all processes if it is known.
  [[nodiscard]] std::optional<int> Count() const;
};

// Takes the sizes among the options of a launcher (torchrun, deepspeed, accelerate, Paddle) or the
// keys of FlagScale's and accelerate's files. `batch` are the options of "#SBATCH" lines.
JobProcesses TakeProcesses(SettingReader& settings,
                           const std::map<std::string, std::string>& batch);

}  // namespace meshwright
