#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "server/tuner/placement/assignment.h"
#include "server/tuner/placement/integer_program.h"

namespace meshwright {

struct Placement {
  Assignment assignment = {};
  PlacementScore score = {};
  // No assignment has a greater first figure, and none with the same first figure a greater
  // throughput.
  PlacementScore bound = {};
  bool is_proven = false;  // the assignment is optimal
};

// The knowledge of a problem that comes from one that differs little; it saves programs.
struct KnownPlacement {
  std::optional<Assignment> start = {};  // an assignment that the problem allows
  std::optional<double> most = {};       // no assignment has a greater first figure
};

// Finds the assignment with the best score. `solve` answers one program for each figure of the
// score, and several for the least ratio. If it reaches its limit, the result is the best that is
// known, which is never worse than first come, first served.
absl::StatusOr<Placement> Place(const AssignmentProblem& problem, const ProgramSolver& solve,
                                const KnownPlacement& known = {});

}  // namespace meshwright
