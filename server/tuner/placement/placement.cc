#include "server/tuner/placement/placement.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

using OptionFilter = std::function<bool(const PlacementOption&)>;
using OptionValue = std::function<double(const PlacedJob&, const PlacementOption&)>;

double Throughput(const PlacedJob& job, const PlacementOption& option) {
  return job.weight * option.throughput_ratio;
}

double MetWeight(const PlacedJob& job, const PlacementOption& option) {
  return option.meets_deadline ? job.weight : 0;
}

// Makes the program of the available options that pass the filter.
IntegerProgram ProgramOf(const AssignmentProblem& problem, const OptionValue& value,
                         const OptionFilter& filter = {}) {
  IntegerProgram program = {.node_counts = problem.node_counts};
  for (const PlacedJob& job : problem.jobs) {
    ProgramJob& made = program.jobs.emplace_back(ProgramJob{.is_required = job.is_required});
    for (std::size_t i = 0; i < job.options.size(); ++i) {
      const PlacementOption& option = job.options[i];
      if (!IsAvailable(problem, option) || (filter && !filter(option))) continue;
      const double worth = value(job, option);
      if (worth <= 0 && !job.is_required) continue;
      made.options.push_back({.option = static_cast<int>(i), .uses = option.uses, .value = worth});
    }
  }
  return program;
}

// The result for the first figure.
struct Leading {
  double bound = 0;
  bool is_proven = true;
  std::optional<Assignment> assignment = {};
};

absl::StatusOr<Leading> MostDeadlines(const AssignmentProblem& problem,
                                      const ProgramSolver& solve) {
  ASSIGN_OR_RETURN(ProgramSolution solution, solve(ProgramOf(problem, MetWeight)));
  return Leading{.bound = solution.bound,
                 .is_proven = solution.is_proven,
                 .assignment = std::move(solution.assignment)};
}

// Returns the program in which every job that has an option takes one with at least this ratio.
IntegerProgram AllAtLeast(const AssignmentProblem& problem, double ratio,
                          const OptionValue& value) {
  IntegerProgram program = ProgramOf(problem, value, [ratio](const PlacementOption& option) {
    return option.throughput_ratio >= ratio;
  });
  for (std::size_t i = 0; i < problem.jobs.size(); ++i) {
    program.jobs[i].is_required = BestOption(problem, problem.jobs[i]).has_value();
  }
  return program;
}

// Returns the values that the least ratio can have, in ascending order.
std::vector<double> RatiosOf(const AssignmentProblem& problem) {
  std::vector<double> ratios;
  for (const PlacedJob& job : problem.jobs) {
    for (const PlacementOption& option : job.options) {
      if (IsAvailable(problem, option)) ratios.push_back(option.throughput_ratio);
    }
  }
  std::ranges::sort(ratios);
  ratios.erase(std::unique(ratios.begin(), ratios.end()), ratios.end());
  return ratios;
}

// Returns how many of the ratios are not greater than a limit.
std::size_t CountUpTo(const std::vector<double>& ratios, double limit) {
  return static_cast<std::size_t>(std::ranges::upper_bound(ratios, limit) - ratios.begin());
}

// Finds the greatest least ratio by bisection over the ratios that there are. `least` is possible.
// If the greatest is known to be no more than a limit, that is tried first; else the next one above
// `least`.
absl::StatusOr<Leading> GreatestLeast(const AssignmentProblem& problem, const ProgramSolver& solve,
                                      double least, const KnownPlacement& known) {
  const std::vector<double> ratios = RatiosOf(problem);
  Leading leading;
  std::size_t low = CountUpTo(ratios, least);  // all below are possible
  std::size_t high = known.most ? CountUpTo(ratios, *known.most) : ratios.size();  // none from here
  std::size_t impossible = high;
  std::optional<std::size_t> first;
  if (known.start.has_value()) first = low;
  if (known.most.has_value() && high > low) first = high - 1;
  while (low < high) {
    const std::size_t tried = first.value_or((low + high) / 2);
    first.reset();
    const auto one = [](const PlacedJob&, const PlacementOption&) { return 1.0; };
    ASSIGN_OR_RETURN(ProgramSolution solution, solve(AllAtLeast(problem, ratios[tried], one)));
    if (solution.assignment.has_value()) {
      leading.assignment = std::move(solution.assignment);
      low = tried + 1;
      continue;
    }
    high = tried;
    if (solution.is_proven) impossible = tried;
  }
  leading.is_proven = impossible == high;
  leading.bound = impossible == 0 ? 0 : ratios[impossible - 1];
  return leading;
}

// Returns the program of the greatest throughput among assignments whose first figure is as good.
IntegerProgram SecondProgram(const AssignmentProblem& problem, double first) {
  if (problem.objective == PlacementObjective::kFair && first > 0) {
    return AllAtLeast(problem, first, Throughput);
  }
  IntegerProgram program = ProgramOf(problem, Throughput);
  if (problem.objective != PlacementObjective::kDeadline || first <= 0) return program;
  program.floor = first;
  for (std::size_t i = 0; i < program.jobs.size(); ++i) {
    for (ProgramOption& option : program.jobs[i].options) {
      const PlacedJob& job = problem.jobs[i];
      option.floor_value = MetWeight(job, job.options[static_cast<std::size_t>(option.option)]);
    }
  }
  return program;
}

void TakeBetter(const AssignmentProblem& problem, const std::optional<Assignment>& found,
                Placement& best) {
  if (!found.has_value()) return;
  const PlacementScore score = ScoreOf(problem, *found);
  if (IsBetter(best.score, score)) return;
  best.assignment = *found;
  best.score = score;
}

}  // namespace

absl::StatusOr<Placement> Place(const AssignmentProblem& problem, const ProgramSolver& solve,
                                const KnownPlacement& known) {
  Placement best = {.assignment = FirstComeFirstServed(problem)};
  best.score = ScoreOf(problem, best.assignment);
  TakeBetter(problem, known.start, best);
  Leading leading;
  if (problem.objective == PlacementObjective::kDeadline) {
    ASSIGN_OR_RETURN(leading, MostDeadlines(problem, solve));
  } else if (problem.objective == PlacementObjective::kFair) {
    ASSIGN_OR_RETURN(leading, GreatestLeast(problem, solve, best.score.first, known));
  }
  TakeBetter(problem, leading.assignment, best);
  const IntegerProgram second = SecondProgram(problem, best.score.first);
  ASSIGN_OR_RETURN(const ProgramSolution solution, solve(second));
  TakeBetter(problem, solution.assignment, best);
  best.assignment = Polished(problem, std::move(best.assignment));
  best.score = ScoreOf(problem, best.assignment);
  best.is_proven = leading.is_proven && solution.is_proven;
  best.bound.throughput = std::max(solution.bound, best.score.throughput);
  const bool is_sum = problem.objective == PlacementObjective::kThroughput;
  best.bound.first = std::max(is_sum ? best.bound.throughput : leading.bound, best.score.first);
  if (best.is_proven) best.bound = best.score;  // but for rounding
  return best;
}

}  // namespace meshwright
