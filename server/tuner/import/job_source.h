#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/import/import_request.h"
#include "server/tuner/import/text/setting.h"

namespace meshwright {

// The settings of a job, gathered from a script and the files that it names.
struct JobSource {
  std::string framework = {};                     // one of the frameworks of a workload
  std::vector<Setting> settings = {};             // in the form that the framework's reader takes
  std::vector<Setting> launcher = {};             // settings that state the size of the job
  std::vector<Setting> deepspeed = {};            // of a DeepSpeed JSON beside Megatron's arguments
  std::map<std::string, std::string> batch = {};  // options of "#SBATCH" lines
  std::vector<std::string> pools = {};  // of the job, in the pipeline's order, if it names them
  std::vector<Setting> program = {};    // arguments of a training program that is not known
  std::vector<std::string> notes = {};
};

// Finds out what a file is, and gathers its settings. For a file of no known framework the reason
// is UNKNOWN_LAUNCH_FILE.
absl::StatusOr<JobSource> GatherJob(const ImportRequest& request);

// Returns true if a configuration, as JSON text, has a key by which GatherJob knows the file of a
// framework. No message of ours has such a key.
bool HasKeyOfFramework(std::string_view json);

}  // namespace meshwright
