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

// The fastest plan on a number of nodes that leaves a share of each device's memory free, among
// those that fit with the request's least probability if there are any. `tune` may choose another
// one that cannot be told apart from it.
struct SweepPoint {
  int device_count = 0;
  double free_memory_ratio = 0;
  std::optional<RankedPlan> best = {};  // absent: none fits
  // Devices x step time / tokens of a step. Multiplied by the price of a device-second it is the
  // cost of a token.
  double device_seconds_per_token = 0;
  // True if no other point is at least as good in step time, device count and free memory, and
  // better in one of them.
  bool is_on_front = false;
};

struct Sweep {
  std::vector<SweepPoint> points = {};  // ordered by device count, then free memory
  std::vector<AppliedDefault> applied_defaults = {};
  std::vector<std::string> warnings = {};
};

// Answers every pair of the two lists by a search of its own, with the history for its own size. By
// the built-in model the result is the exact Pareto front of step time, device count and free
// memory at these points. If the request names a vendor's model, all points are by that model, and
// exact for those searches that ended (the warnings name the others). If the model cannot be asked
// about one of the points and the request allows a fallback, all points are by the built-in model
// and marked. `node_counts` replaces the pool's; `free_memory_ratios` are in [0, 1). Returns
// INVALID_ARGUMENT with what is wrong.
absl::StatusOr<Sweep> RunSweep(const StudyRequest& request, const std::vector<int>& node_counts,
                               const std::vector<double>& free_memory_ratios,
                               const Knowledge& knowledge, const StudyControl& control);

}  // namespace meshwright
