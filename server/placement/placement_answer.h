#pragma once

#include <string>
#include <vector>

#include "meshwright/v1/placement.pb.h"
#include "server/placement/placement_table.h"
#include "server/tuner/placement/assignment.h"
#include "server/tuner/placement/consequences.h"
#include "server/tuner/placement/placement.h"

namespace meshwright {

// A placement with all that follows from it.
struct PlacementResult {
  Placement placement = {};
  PlacementScore first_come = {};
  std::vector<Displacement> displaced = {};
  std::vector<ScoreChange> node_values = {};  // of each pool
};

// Makes the answer; the facts of the search but for the table's counts are left to the caller.
v1::PlacementAnswer AnswerOf(const PlacementTable& table, const AssignmentProblem& problem,
                             const PlacementResult& result);

}  // namespace meshwright
