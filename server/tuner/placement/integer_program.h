#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/placement/assignment.h"

namespace meshwright {

// The form of an assignment that every solver takes: choose at most one option of each job so that
// the sum of their values is greatest. The uses of each pool may not exceed its nodes.

struct ProgramOption {
  int option = 0;  // index in the job's options of the assignment
  std::vector<PoolUse> uses = {};
  double value = 0;
  double floor_value = 0;  // counts toward IntegerProgram::floor
};

struct ProgramJob {
  bool is_required = false;  // exactly one option, not at most one
  std::vector<ProgramOption> options = {};
};

struct IntegerProgram {
  std::vector<int> node_counts = {};
  std::vector<ProgramJob> jobs = {};
  std::optional<double> floor = {};  // the least sum of floor values; absent: none
};

struct ProgramSolution {
  std::optional<Assignment> assignment = {};  // absent: none was found
  double value = 0;                           // of the assignment
  double bound = 0;                           // no assignment has a greater value
  // The assignment is optimal, or there is none. False: the solver reached its limit.
  bool is_proven = false;
};

// Solves programs; may be called from any thread. An error says why the solver could not run.
using ProgramSolver = std::function<absl::StatusOr<ProgramSolution>(const IntegerProgram&)>;

// Returns the program without options that another one of the same job makes needless: it takes no
// more nodes of any pool and has no smaller value.
IntegerProgram WithoutDominated(IntegerProgram program);

}  // namespace meshwright
