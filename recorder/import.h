#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "recorder/store_access.h"
#include "recorder/transfer.h"

namespace meshwright {

// Imports the output of Recorder::Export; a measurement's id identifies it. The lines are read
// twice. The first pass checks all of them and stores nothing, so that a damaged export or a
// conflict leaves the store unchanged. Its errors are: DATA_LOSS with reason DAMAGED_EXPORT, which
// names the damaged line or says that the end is missing; FAILED_PRECONDITION with reason
// NEWER_EXPORT; and for a conflict under kFail, ALREADY_EXISTS with reason IMPORT_CONFLICT, which
// names the differences. The second pass stores small groups, each of which is durable before the
// next begins, so that others can use the store between two groups. If it ends early, because the
// disk is full or the process is killed, the stored groups stay. Repeating the import then stores
// the others, and nothing twice.
absl::StatusOr<ImportCounts> ImportMeasurements(const LineSource& lines,
                                                const ImportOptions& options,
                                                const StoreAccess& store);

// The limits of a group, whichever is reached first. Storing a group takes some milliseconds,
// during which other writers wait.
inline constexpr int kMaxGroupRows = 100;
inline constexpr std::size_t kMaxGroupBytes = std::size_t{64} * 1024;

}  // namespace meshwright
