#pragma once

#include <cstdint>

#include "server/tuner/placement/assignment.h"

namespace meshwright {

// The size of a random problem of an assignment.
struct RandomProblemSize {
  int most_jobs = 0;
  int most_pools = 0;
  bool is_exactly_most = false;  // of jobs and pools
  int most_nodes = 6;            // of a pool
};

// Returns a problem with random throughputs. A quarter of its jobs are equal to the job before, and
// so are the numbers of nodes of a quarter of its pools; a tenth of the options use two pools, and
// some need one node more than their pool has. Equal seeds give equal problems.
AssignmentProblem RandomProblem(std::uint64_t seed, const RandomProblemSize& size,
                                PlacementObjective objective);

}  // namespace meshwright
