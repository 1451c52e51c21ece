#pragma once

#include <cstdint>

#include "server/tuner/placement/integer_program.h"

namespace meshwright {

// The most jobs that are placed without a solver.
inline constexpr int kMaxExactJobs = 12;

// Partial assignments after which the search ends without a proof. It counts them, not seconds, so
// that equal problems have equal answers.
inline constexpr std::int64_t kMaxSearchNodes = 5'000'000;

// Returns an upper bound of the value of all assignments, from the Lagrangian relaxation: nodes
// have prices, and each job takes the option with the most value after its price. With the best
// prices this is the bound of the linear relaxation.
double RelaxedBound(const IntegerProgram& program);

// Solves a program by branch and bound: jobs in the order of their greatest values, bounded by the
// Lagrangian relaxation at the prices of the root. Partial assignments that leave the same nodes to
// the same jobs are continued only from the best of them.
ProgramSolution SolveExactly(const IntegerProgram& program,
                             std::int64_t node_limit = kMaxSearchNodes);

}  // namespace meshwright
