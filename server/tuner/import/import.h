#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "server/tuner/import/import_request.h"
#include "server/tuner/import/imported_job.h"

namespace meshwright {

// Returns true if the text may be a plan, a workload or a case in Meshwright's own JSON rather than
// a file of a framework.
bool LooksLikeOwnJson(std::string_view text);

// Reads a launch script or a configuration. Errors are INVALID_ARGUMENT and name every bad,
// contradictory or undetermined key at once, as "from.<key>"; for a file of no known framework the
// reason is UNKNOWN_LAUNCH_FILE.
absl::StatusOr<ImportedJob> ImportJob(const ImportRequest& request);

}  // namespace meshwright
