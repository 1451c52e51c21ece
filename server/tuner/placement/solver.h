#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "server/tuner/placement/exact_search.h"
#include "server/tuner/placement/integer_program.h"

namespace meshwright {

// The ways to solve an integer program: the search of this program, or a solver of Debian's
// packages coinor-cbc and glpk-utils, which runs as a process of its own.
enum class SolverKind { kExact, kCbc, kGlpk };

inline std::string_view Word(SolverKind kind) {
  if (kind == SolverKind::kExact) return "exact";
  return kind == SolverKind::kCbc ? "cbc" : "glpk";
}

// Returns the first line that a solver prints about itself: "CBC 2.10.8". Absent: it is not
// installed.
std::optional<std::string> SolverVersion(SolverKind kind);

// Returns the first of CBC and GLPK that is installed.
std::optional<SolverKind> InstalledSolver();

// Chooses the solver of a number of jobs: the wanted one, or, if none is wanted, the exact search
// for up to kMaxExactJobs and else the one that is installed. FAILED_PRECONDITION with reason
// NO_SOLVER says which package to install, or that the jobs are too many for the exact search.
absl::StatusOr<SolverKind> ChooseSolver(std::optional<SolverKind> wanted, int job_count);

// Limits of the solution of one program, after which it is the best so far.
struct SolverLimits {
  Seconds seconds = Seconds(60);              // of CBC and GLPK
  std::int64_t node_count = kMaxSearchNodes;  // of the exact search
};

ProgramSolver MakeSolver(SolverKind kind, const SolverLimits& limits);

}  // namespace meshwright
