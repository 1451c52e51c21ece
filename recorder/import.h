#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "recorder/store_access.h"
#include "recorder/transfer.h"

namespace meshwright {

// Takes in what Recorder::Export gave; identity is a measurement's id. Reads the lines twice. The
// first pass checks all of them and stores nothing, so that a damaged export or a conflict leaves
// the store as it was: DATA_LOSS with reason DAMAGED_EXPORT names the line that is damaged or says
// that the end is missing; FAILED_PRECONDITION with reason NEWER_EXPORT; a conflict under kFail is
// ALREADY_EXISTS with reason IMPORT_CONFLICT and names what differs. The second pass stores small
// groups, each durable before the next, so that others get to the store between two of them. If it
// ends early, because the disk is full or the process is killed, the groups that were stored stay,
// and the same import again stores the others and nothing twice.
absl::StatusOr<ImportCounts> ImportMeasurements(const LineSource& lines,
                                                const ImportOptions& options,
                                                const StoreAccess& store);

// The size of a group, whichever is reached first: it takes some milliseconds to store, during
// which other writers wait.
inline constexpr int kMostGroupRows = 100;
inline constexpr std::size_t kMostGroupBytes = 64 * 1024;

}  // namespace meshwright
