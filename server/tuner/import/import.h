#pragma once

#include "absl/status/statusor.h"
#include "server/tuner/import/import_request.h"
#include "server/tuner/import/imported_job.h"

namespace meshwright {

// Reads a launch script or a configuration. Errors are INVALID_ARGUMENT and name every bad,
// contradictory or undetermined key at once, as "from.<key>"; for a file of no known framework the
// reason is UNKNOWN_LAUNCH_FILE.
absl::StatusOr<ImportedJob> ImportJob(const ImportRequest& request);

}  // namespace meshwright
