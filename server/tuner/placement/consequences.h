#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/placement/assignment.h"
#include "server/tuner/placement/integer_program.h"
#include "server/tuner/placement/placement.h"

namespace meshwright {

// The loss or gain of a score.
struct ScoreChange {
  double first = 0;
  double throughput = 0;
  bool is_proven = false;  // both scores are optimal
};

// A job that does not run with its best option.
struct Displacement {
  int job = 0;
  int best_option = 0;
  std::vector<int> holders = {};  // the jobs that hold nodes which the best option needs
  double lost_ratio = 0;          // of its own throughput: 1 if it is not placed
  ScoreChange price = {};         // what the best score would lose if the job had its best option
};

// Returns the displaced jobs in their order.
absl::StatusOr<std::vector<Displacement>> DisplacementsOf(const AssignmentProblem& problem,
                                                          const Placement& placement,
                                                          const ProgramSolver& solve);

// Returns what the best score gains if one pool alone has one more node, for each pool. Options
// that need the node are then available.
absl::StatusOr<std::vector<ScoreChange>> NodeValues(const AssignmentProblem& problem,
                                                    const Placement& placement,
                                                    const ProgramSolver& solve);

}  // namespace meshwright
