#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "meshwright/v1/catalog.pb.h"
#include "server/engine/history_queries.h"
#include "server/engine/store_files.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "vendor_models/catalogue.h"
#include "vendor_models/chip_file.h"

namespace meshwright {

// These functions answer requests about what the program knows, so that the server and an embedded
// command line give the same answers.

v1::Chip ToWire(const ChipEntry& entry, bool with_figures);
v1::ListChipsResponse ListChips(const Catalogue& catalogue);
absl::StatusOr<v1::GetChipResponse> GetChip(const Catalogue& catalogue, const std::string& id);
v1::GetServerInfoResponse ServerInfo(const Knowledge& knowledge, int store_schema_version,
                                     const StoreSize& store = {});

// Adds to each caller the number of its open studies, the device time of its jobs in the 24 hours
// before a time (milliseconds since 1970), and the time that its open studies may still take.
void AddUse(const HistoryQueries& history, std::int64_t time_ms, v1::ListCallersResponse& callers);

}  // namespace meshwright
