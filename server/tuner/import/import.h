#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/text/shell_script.h"

namespace meshwright {

// A file to import, and what is known from elsewhere.
struct ImportRequest {
  std::string file = {};  // its name, for its format and for messages
  std::string text = {};
  OpenFile open_file = {};  // files that it names, such as a DeepSpeed JSON
  std::map<std::string, std::string> variables = {};  // values of the script's variables
  std::string framework = {};                         // empty: what the file shows
  std::optional<ModelSpec> model = {};                // stated beside the file
  std::optional<int> devices = {};                    // of the cluster
  // What the file leaves to the training program, stated beside it.
  std::optional<int> global_batch_size = {};
};

// Returns true if the text may be a plan, a workload or a case in Meshwright's own JSON rather than
// a file of a framework.
bool LooksLikeOwnJson(std::string_view text);

// Reads a launch script or a configuration. Errors are INVALID_ARGUMENT and name every bad,
// contradictory or undetermined key at once, as "from.<key>"; for a file of no known framework the
// reason is UNKNOWN_LAUNCH_FILE.
absl::StatusOr<ImportedJob> ImportJob(const ImportRequest& request);

}  // namespace meshwright
