// The placement of jobs whose tables are tuned: the assignment, the price of each displacement and
// the value of one more node of each pool, for 20 jobs on 6 clusters (aim: 10 s).

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/tuner/placement/assignment.h"
#include "server/tuner/placement/consequences.h"
#include "server/tuner/placement/integer_program.h"
#include "server/tuner/placement/placement.h"
#include "server/tuner/placement/solver.h"
#include "tests/tuner/placement/random_problems.h"

namespace meshwright {
namespace {

constexpr int kProblems = 3;

// Every iteration takes problems of its own seeds, since equal ones differ in nothing.
void BM_Place(benchmark::State& state, SolverKind kind, PlacementObjective objective) {
  if (!SolverVersion(kind).has_value()) {
    state.SkipWithError("the solver is not installed");
    return;
  }
  const RandomProblemSize size = {.most_jobs = static_cast<int>(state.range(0)),
                                  .most_pools = static_cast<int>(state.range(1)),
                                  .is_exactly_most = true,
                                  .most_nodes = 64};
  const ProgramSolver solve = MakeSolver(kind, {});
  std::uint64_t seed = 0;
  std::int64_t proven = 0;
  for (auto _ : state) {
    const AssignmentProblem problem = RandomProblem(seed++ % kProblems, size, objective);
    const auto placement = Place(problem, solve);
    if (!placement.ok()) std::abort();
    benchmark::DoNotOptimize(DisplacementsOf(problem, *placement, solve));
    benchmark::DoNotOptimize(NodeValues(problem, *placement, solve));
    proven += placement->is_proven ? 1 : 0;
  }
  state.counters["proven_ratio"] =
      static_cast<double>(proven) / static_cast<double>(state.iterations());
}

void Register() {
  for (const SolverKind kind : {SolverKind::kExact, SolverKind::kCbc, SolverKind::kGlpk}) {
    for (const PlacementObjective objective :
         {PlacementObjective::kThroughput, PlacementObjective::kDeadline,
          PlacementObjective::kFair}) {
      benchmark::RegisterBenchmark(
          fmt::format("place/{}/{}/jobs/clusters", Word(kind), Word(objective)).c_str(), BM_Place,
          kind, objective)
          ->Args({12, 6})
          ->Args({20, 6})
          ->Iterations(kProblems)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
}

const int kRegistered = (Register(), 0);

}  // namespace
}  // namespace meshwright
