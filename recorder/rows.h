#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/records.h"

struct sqlite3;

namespace meshwright {

// Row-level steps that the Recorder's transactions are made of; internal to recorder/. The caller
// holds the transaction.

absl::Status UnknownStudy(std::string_view id);

absl::Status InsertPlans(sqlite3* connection, std::span<const PlanRecord> plans);

// Gives each event its study's next revision.
absl::StatusOr<std::vector<std::int64_t>> InsertEvents(sqlite3* connection,
                                                       std::span<const EventRecord> events);

}  // namespace meshwright
