#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/placement/integer_program.h"

namespace meshwright {

// A program as text in the LP format of CPLEX, which CBC and GLPK read, and their solutions.
struct LinearText {
  // One variable of the text: 1 if the job has the option.
  struct Variable {
    std::string name = {};
    int job = 0;
    int option = 0;
  };
  std::string text = {};
  std::vector<Variable> variables = {};  // in the order of their first appearance
};

// Writes a program. Values are scaled so that the greatest ones add up to a million: the solvers'
// tolerances are absolute.
LinearText LinearTextOf(const IntegerProgram& program);

enum class SolverEnd { kOptimal, kInfeasible, kStopped };

struct SolverReply {
  SolverEnd end = SolverEnd::kStopped;
  std::vector<std::size_t> chosen = {};  // the variables that are 1
};

// Read the file that `cbc ... solution FILE` and `glpsol ... --write FILE` write. INTERNAL if it
// has another form.
absl::StatusOr<SolverReply> ReadCbcSolution(std::string_view text, const LinearText& program);
absl::StatusOr<SolverReply> ReadGlpkSolution(std::string_view text, const LinearText& program);

}  // namespace meshwright
