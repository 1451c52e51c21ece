#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/strategies/exhaustive.h"
#include "server/tuner/study.h"

namespace meshwright {

// The shares of a device's memory that the points of a front leave free.
inline constexpr double kFreeMemoryLevels[] = {0, 0.1, 0.2, 0.3};

// The best plan where only 1 - `free_ratio` of each device's memory may be used, with the memory
// that there is in its estimate; nothing when none fits. CANCELLED or DEADLINE_EXCEEDED when the
// search was cut.
absl::StatusOr<std::optional<RankedPlan>> BestWithin(const Problem& problem, double free_ratio,
                                                     const Calibration& calibration,
                                                     const SearchOptions& options);

// Adds the front of step time and free memory to an answer whose plans are ranked: a search for
// each level that no faster plan leaves, until nothing fits. Levels that the deadline or a cancel
// leaves no time for are left out with a warning.
void AddParetoFront(const Problem& problem, const Calibration& calibration,
                    const SearchOptions& options, StudyResult& result);

// The front of all `points`: the fastest first, each of the others leaves more memory free.
std::vector<ParetoPoint> FrontOf(std::vector<ParetoPoint> points);

}  // namespace meshwright
