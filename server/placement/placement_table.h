#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/placement/candidates.h"
#include "server/placement/question.h"
#include "server/placement/tuner.h"
#include "server/tuner/placement/assignment.h"

namespace meshwright {

// A job with every candidate on which it may run.
struct TunedOption {
  Candidate candidate = {};
  TunedNodes tuned = {};
  std::optional<double> days = {};  // of the job's steps
};

struct TunedJob {
  v1::PlacementJob job = {};
  std::vector<TunedOption> options = {};  // those with a plan
  std::string reason = {};                // if there are none on the nodes that there are
};

struct PlacementTable {
  std::vector<PlacementPool> pools = {};
  std::vector<TunedJob> jobs = {};
  std::int64_t candidate_count = 0;
  std::int64_t fitting_count = 0;
};

// Tunes every job on all of its candidates. A pair of pools is an option only if `tune` recommends
// to mix them.
absl::StatusOr<PlacementTable> TuneAll(const std::vector<StatedJob>& jobs,
                                       const std::vector<PlacementCluster>& clusters,
                                       PlacementTuner& tuner);

// Returns the assignment of the table: the same jobs and options, in their order.
AssignmentProblem ProblemOf(const PlacementTable& table, PlacementObjective objective);

}  // namespace meshwright
