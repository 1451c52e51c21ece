#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The best plan on so many nodes that leaves so much of each device's memory free.
struct SweepPoint {
  int device_count = 0;
  double free_memory_ratio = 0;
  std::optional<RankedPlan> best = {};  // nothing when none fits
  // Devices x step time / tokens of a step; what a token costs, at a price for a device-second.
  double device_seconds_per_token = 0;
  // No other point has a step as short on as few devices with as much memory free, and one better.
  bool is_on_front = false;
};

struct Sweep {
  std::vector<SweepPoint> points = {};  // by device count, then free memory
  std::vector<AppliedDefault> applied_defaults = {};
  std::vector<std::string> warnings = {};
};

// Every pair of the two lists, each answered by a search of its own, with the history of its own
// size: by the built-in model the exact Pareto front of step time, device count and free memory at
// these points. Where the request names a vendor's model, all points are by that, and exact as far
// as its searches ended (the warnings name those that did not); or, where the request allows that
// and the model cannot be asked for one of them, all by the built-in one, and marked. `node_counts`
// in place of the pool's; `free_memory_ratios` in [0, 1). INVALID_ARGUMENT names what is wrong.
absl::StatusOr<Sweep> RunSweep(const StudyRequest& request, const std::vector<int>& node_counts,
                               const std::vector<double>& free_memory_ratios,
                               const Knowledge& knowledge, const StudyControl& control);

}  // namespace meshwright
