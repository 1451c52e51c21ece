#include "server/tuner/placement/consequences.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>

#include "search_space/base/status.h"
#include "server/process/parallel_for.h"

namespace meshwright {
namespace {

const PlacementOption& OptionAt(const PlacedJob& job, int index) {
  return job.options[static_cast<std::size_t>(index)];
}

// Returns the other jobs in the pools where too few nodes are free for the option.
std::vector<int> HoldersOf(const AssignmentProblem& problem, const Assignment& assignment,
                           std::size_t job, const PlacementOption& wanted) {
  Assignment others = assignment;
  others[job] = std::nullopt;
  const std::vector<int> free = FreeNodes(problem, others);
  std::set<int> holders;
  for (const PoolUse& use : wanted.uses) {
    if (use.node_count <= free[static_cast<std::size_t>(use.pool)]) continue;
    for (std::size_t i = 0; i < others.size(); ++i) {
      if (!others[i].has_value()) continue;
      const std::vector<PoolUse>& uses = OptionAt(problem.jobs[i], *others[i]).uses;
      if (std::ranges::find(uses, use.pool, &PoolUse::pool) == uses.end()) continue;
      holders.insert(static_cast<int>(i));
    }
  }
  return {holders.begin(), holders.end()};
}

ScoreChange Between(const Placement& less, const Placement& more) {
  return {.first = more.score.first - less.score.first,
          .throughput = more.score.throughput - less.score.throughput,
          .is_proven = less.is_proven && more.is_proven};
}

absl::StatusOr<ScoreChange> PriceOf(const AssignmentProblem& problem, const Placement& placement,
                                    const Displacement& displaced, const ProgramSolver& solve) {
  AssignmentProblem fixed = problem;
  PlacedJob& job = fixed.jobs[static_cast<std::size_t>(displaced.job)];
  job.is_required = true;
  job.options = {OptionAt(job, displaced.best_option)};
  KnownPlacement known;
  if (placement.is_proven) known.most = placement.score.first;
  ASSIGN_OR_RETURN(const Placement placed, Place(fixed, solve, known));
  return Between(placed, placement);
}

// Does the tasks 0 to `count` - 1. Returns the first error in their order.
absl::Status DoAll(std::size_t count, const std::function<absl::Status(std::size_t)>& task) {
  std::vector<absl::Status> done(count);
  ParallelFor(count, [&](std::size_t i) { done[i] = task(i); });
  for (const absl::Status& one : done) RETURN_IF_ERROR(one);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Displacement>> DisplacementsOf(const AssignmentProblem& problem,
                                                          const Placement& placement,
                                                          const ProgramSolver& solve) {
  std::vector<Displacement> displacements;
  for (std::size_t i = 0; i < problem.jobs.size(); ++i) {
    const PlacedJob& job = problem.jobs[i];
    const std::optional<int> best = BestOption(problem, job);
    if (!best.has_value()) continue;
    const std::optional<int> own = placement.assignment[i];
    const double most = OptionAt(job, *best).throughput_ratio;
    const double has = own.has_value() ? OptionAt(job, *own).throughput_ratio : 0;
    if (has >= most) continue;
    displacements.push_back(
        {.job = static_cast<int>(i),
         .best_option = *best,
         .holders = HoldersOf(problem, placement.assignment, i, OptionAt(job, *best)),
         .lost_ratio = 1 - has / most});
  }
  RETURN_IF_ERROR(DoAll(displacements.size(), [&](std::size_t i) -> absl::Status {
    ASSIGN_OR_RETURN(displacements[i].price, PriceOf(problem, placement, displacements[i], solve));
    return absl::OkStatus();
  }));
  return displacements;
}

absl::StatusOr<std::vector<ScoreChange>> NodeValues(const AssignmentProblem& problem,
                                                    const Placement& placement,
                                                    const ProgramSolver& solve) {
  std::vector<ScoreChange> values(problem.node_counts.size());
  RETURN_IF_ERROR(DoAll(values.size(), [&](std::size_t pool) -> absl::Status {
    AssignmentProblem grown = problem;
    ++grown.node_counts[pool];
    ASSIGN_OR_RETURN(const Placement placed, Place(grown, solve, {.start = placement.assignment}));
    values[pool] = Between(placement, placed);
    return absl::OkStatus();
  }));
  return values;
}

}  // namespace meshwright
