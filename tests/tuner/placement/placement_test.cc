#include "server/tuner/placement/placement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "server/tuner/placement/consequences.h"
#include "server/tuner/placement/exact_search.h"
#include "server/tuner/placement/solver.h"
#include "tests/tuner/placement/random_problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr PlacementObjective kObjectives[] = {
    PlacementObjective::kThroughput, PlacementObjective::kDeadline, PlacementObjective::kFair};
constexpr RandomProblemSize kSmall = {.most_jobs = 6, .most_pools = 4};
constexpr int kProblems = 500;
constexpr int kSolvedProblems =
    60;  // a solver's process takes a tenth of a second for each program
// The solvers stop when nothing can be better by more than a share of about 1e-7.
constexpr double kTolerance = 1e-6;

PlacementObjective ObjectiveOf(int seed) { return kObjectives[seed % 3]; }

AssignmentProblem SmallProblem(int seed) {
  return RandomProblem(static_cast<std::uint64_t>(seed), kSmall, ObjectiveOf(seed));
}

Placement Solved(const AssignmentProblem& problem) {
  return Place(problem, MakeSolver(SolverKind::kExact, {})).value();
}

// Tries every assignment, and keeps scores of its own.
class BruteForce {
 public:
  explicit BruteForce(const AssignmentProblem& problem) : problem_(problem) {}

  PlacementScore Best() {
    Try(0, problem_.node_counts, {}, std::nullopt);
    return best_;
  }

 private:
  struct Sums {
    double throughput = 0;
    double met = 0;
  };

  void Try(std::size_t job, const std::vector<int>& free, Sums sums, std::optional<double> least) {
    if (job == problem_.jobs.size()) {
      PlacementScore score = {.first = sums.throughput, .throughput = sums.throughput};
      if (problem_.objective == PlacementObjective::kDeadline) score.first = sums.met;
      if (problem_.objective == PlacementObjective::kFair) score.first = least.value_or(0);
      if (IsBetter(score, best_)) best_ = score;
      return;
    }
    const PlacedJob& placed = problem_.jobs[job];
    bool has_option = false;
    for (const PlacementOption& option : placed.options) {
      const auto fits = [&](const std::vector<int>& nodes) {
        return std::ranges::all_of(option.uses, [&](const PoolUse& use) {
          return use.node_count <= nodes[static_cast<std::size_t>(use.pool)];
        });
      };
      has_option |= fits(problem_.node_counts);
      if (!fits(free)) continue;
      std::vector<int> rest = free;
      for (const PoolUse& use : option.uses) {
        rest[static_cast<std::size_t>(use.pool)] -= use.node_count;
      }
      const double ratio = option.throughput_ratio;
      Try(job + 1, rest,
          {.throughput = sums.throughput + placed.weight * ratio,
           .met = sums.met + (option.meets_deadline ? placed.weight : 0)},
          std::min(least.value_or(ratio), ratio));
    }
    Try(job + 1, free, sums, has_option ? 0 : least);
  }

  const AssignmentProblem& problem_;
  PlacementScore best_ = {};
};

void ExpectSameScore(const PlacementScore& found, const PlacementScore& best) {
  EXPECT_NEAR(found.first, best.first, kTolerance);
  EXPECT_NEAR(found.throughput, best.throughput, kTolerance);
}

// Checks what holds for every placement, and that it is proven.
void ExpectSound(const AssignmentProblem& problem, const Placement& placement) {
  const std::vector<int> free = FreeNodes(problem, placement.assignment);
  EXPECT_TRUE(std::ranges::none_of(free, [](int count) { return count < 0; }));
  EXPECT_TRUE(placement.is_proven);
  const PlacementScore first_come = ScoreOf(problem, FirstComeFirstServed(problem));
  EXPECT_FALSE(IsBetter(first_come, placement.score));
}

bool IsInstalled(SolverKind kind) { return SolverVersion(kind).has_value(); }

// Five hundred random problems of up to 6 jobs and 4 pools.
TEST(PlacementOptimumTest, EqualsBruteForce) {
  const ProgramSolver solve = MakeSolver(SolverKind::kExact, {});
  for (int seed = 0; seed < kProblems; ++seed) {
    SCOPED_TRACE(seed);
    const AssignmentProblem problem = SmallProblem(seed);
    const auto placement = Place(problem, solve);
    ASSERT_TRUE(placement.ok()) << placement.status();
    ExpectSameScore(placement->score, BruteForce(problem).Best());
    ExpectSound(problem, *placement);
    if (testing::Test::HasFailure()) return;
  }
}

// The solvers are equal to the search that is equal to brute force.
class SolverTest : public testing::TestWithParam<SolverKind> {};

TEST_P(SolverTest, EqualsTheExactSearch) {
  if (!IsInstalled(GetParam())) GTEST_SKIP() << Word(GetParam()) << " is not installed";
  for (int seed = 0; seed < kSolvedProblems; ++seed) {
    SCOPED_TRACE(seed);
    const AssignmentProblem problem = SmallProblem(seed);
    const auto placement = Place(problem, MakeSolver(GetParam(), {}));
    ASSERT_TRUE(placement.ok()) << placement.status();
    ExpectSameScore(placement->score, Solved(problem).score);
    ExpectSound(problem, *placement);
    if (testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SolverTest, testing::Values(SolverKind::kCbc, SolverKind::kGlpk),
                         [](const auto& tested) { return std::string(Word(tested.param)); });

// Also where brute force would take too long, the exact search is no worse than first come, first
// served, and the relaxation no less than the optimum.
TEST(PlacementOptimumTest, LargerProblemsAreProven) {
  const RandomProblemSize size = {
      .most_jobs = kMaxExactJobs, .most_pools = 6, .is_exactly_most = true};
  for (int seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const AssignmentProblem problem =
        RandomProblem(static_cast<std::uint64_t>(seed), size, ObjectiveOf(seed));
    const auto placement = Place(problem, MakeSolver(SolverKind::kExact, {}));
    ASSERT_TRUE(placement.ok());
    ExpectSound(problem, *placement);
  }
}

// A search that stops at once keeps first come, first served, and says that it proves nothing.
TEST(PlacementTest, SearchThatStopsEarly) {
  for (int seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const AssignmentProblem problem =
        RandomProblem(static_cast<std::uint64_t>(seed), kSmall, PlacementObjective::kThroughput);
    const auto stopped =
        Place(problem, [](const IntegerProgram& program) { return SolveExactly(program, 0); });
    ASSERT_TRUE(stopped.ok());
    EXPECT_FALSE(stopped->is_proven);
    const PlacementScore best = BruteForce(problem).Best();
    EXPECT_FALSE(IsBetter(ScoreOf(problem, FirstComeFirstServed(problem)), stopped->score));
    EXPECT_GE(stopped->bound.first, best.first * (1 - kTolerance));
  }
}

// Pool 0 has 4 nodes, pool 1 has 2. Job a runs on all of pool 0 (1) or on half of it (0.6), job b
// on half of pool 0 (1) or on pool 1 (0.7), job c on pool 0 as a whole only.
AssignmentProblem ByHand(PlacementObjective objective) {
  const auto on = [](int pool, int nodes, double ratio, bool meets = false) {
    return PlacementOption{.uses = {{.pool = pool, .node_count = nodes}},
                           .throughput_ratio = ratio,
                           .meets_deadline = meets};
  };
  return {.node_counts = {4, 2},
          .jobs = {{.weight = 2, .options = {on(0, 2, 0.6), on(0, 4, 1)}},
                   {.weight = 1, .options = {on(0, 2, 1, true), on(1, 2, 0.7), on(1, 3, 0.9)}},
                   {.weight = 1.5, .options = {on(0, 4, 1, true)}}},
          .objective = objective};
}

TEST(PlacementTest, ByHand) {
  // a on all of pool 0 and b on pool 1: 2 x 1 + 0.7. With c: 1.5 + 0.7; with a on half: 2 x 0.6
  // + 1.
  const Placement most = Solved(ByHand(PlacementObjective::kThroughput));
  EXPECT_EQ(most.assignment, (Assignment{1, 1, std::nullopt}));
  EXPECT_DOUBLE_EQ(most.score.first, 2.7);
  EXPECT_DOUBLE_EQ(most.bound.first, 2.7);
  // c (1.5) or b (1) meets its deadline, not both; beside c, b on pool 1 adds throughput.
  const Placement met = Solved(ByHand(PlacementObjective::kDeadline));
  EXPECT_EQ(met.assignment, (Assignment{std::nullopt, 1, 0}));
  EXPECT_DOUBLE_EQ(met.score.first, 1.5);
  EXPECT_DOUBLE_EQ(met.score.throughput, 2.2);
  // c excludes a, so the least ratio is 0 and the throughput decides.
  const Placement fair = Solved(ByHand(PlacementObjective::kFair));
  EXPECT_EQ(fair.assignment, most.assignment);
  EXPECT_DOUBLE_EQ(fair.score.first, 0);
  // Without c: 0.6 and 1 (a and b on halves) or 1 and 0.7; the least is greater with the latter.
  AssignmentProblem two = ByHand(PlacementObjective::kFair);
  two.jobs.pop_back();
  EXPECT_DOUBLE_EQ(Solved(two).score.first, 0.7);
}

TEST(PlacementTest, FirstComeFirstServedByHand) {
  // a takes pool 0, b what is left, and c nothing.
  AssignmentProblem problem = ByHand(PlacementObjective::kThroughput);
  EXPECT_EQ(FirstComeFirstServed(problem), (Assignment{1, 1, std::nullopt}));
  std::swap(problem.jobs[0], problem.jobs[1]);
  // b takes half of pool 0, and a the other half: 1 + 2 x 0.6.
  EXPECT_EQ(FirstComeFirstServed(problem), (Assignment{0, 0, std::nullopt}));
  EXPECT_DOUBLE_EQ(ScoreOf(problem, FirstComeFirstServed(problem)).first, 2.2);
}

TEST(PlacementTest, ConsequencesByHand) {
  const AssignmentProblem problem = ByHand(PlacementObjective::kThroughput);
  const ProgramSolver solve = MakeSolver(SolverKind::kExact, {});
  const Placement placement = Solved(problem);
  const auto displaced = DisplacementsOf(problem, placement, solve);
  ASSERT_TRUE(displaced.ok());
  ASSERT_EQ(displaced->size(), 2U);
  // b wants half of pool 0, which a holds. Then a has the other half: 2.7 - (1 + 2 x 0.6).
  EXPECT_EQ(displaced->at(0).job, 1);
  EXPECT_EQ(displaced->at(0).best_option, 0);
  EXPECT_EQ(displaced->at(0).holders, std::vector<int>{0});
  EXPECT_DOUBLE_EQ(displaced->at(0).lost_ratio, 0.3);
  EXPECT_NEAR(displaced->at(0).price.first, 0.5, 1e-12);
  // c wants all of pool 0: 2.7 - (1.5 + 0.7).
  EXPECT_EQ(displaced->at(1).job, 2);
  EXPECT_EQ(displaced->at(1).holders, std::vector<int>{0});
  EXPECT_DOUBLE_EQ(displaced->at(1).lost_ratio, 1);
  EXPECT_NEAR(displaced->at(1).price.first, 0.5, 1e-12);
  // A fifth node of pool 0 helps nobody. With a third node of pool 1, b has 0.9 in place of 0.7.
  const auto values = NodeValues(problem, placement, solve);
  ASSERT_TRUE(values.ok());
  ASSERT_EQ(values->size(), 2U);
  EXPECT_NEAR(values->at(0).first, 0, 1e-12);
  EXPECT_NEAR(values->at(1).first, 0.2, 1e-12);
}

// Equal jobs and equal pools have many optima, of which every solver gives the same one.
TEST(PlacementTest, EqualJobsStandInTheirOrder) {
  AssignmentProblem problem = {.node_counts = {2, 2, 1}};
  for (int job = 0; job < 3; ++job) {
    PlacedJob& made = problem.jobs.emplace_back();
    for (int pool = 0; pool < 3; ++pool) {
      const int nodes = problem.node_counts[static_cast<std::size_t>(pool)];
      made.options.push_back(
          {.uses = {{.pool = pool, .node_count = nodes}}, .throughput_ratio = nodes / 2.0});
    }
  }
  for (const SolverKind kind : {SolverKind::kExact, SolverKind::kCbc, SolverKind::kGlpk}) {
    if (!IsInstalled(kind)) continue;
    const auto placement = Place(problem, MakeSolver(kind, {}));
    ASSERT_TRUE(placement.ok()) << placement.status();
    EXPECT_EQ(placement->assignment, (Assignment{0, 1, 2})) << Word(kind);
  }
}

TEST(ChooseSolverTest, ExactUpToTwelveJobs) {
  EXPECT_EQ(ChooseSolver(std::nullopt, kMaxExactJobs).value(), SolverKind::kExact);
  EXPECT_EQ(ChooseSolver(SolverKind::kExact, kMaxExactJobs).value(), SolverKind::kExact);
  const auto refused = ChooseSolver(SolverKind::kExact, kMaxExactJobs + 1);
  EXPECT_EQ(refused.status().message(),
            "13 jobs; the exact search places at most 12, so use a solver: install Debian's "
            "package coinor-cbc or glpk-utils");
  EXPECT_EQ(Reason(refused.status()), "NO_SOLVER");
}

TEST(ChooseSolverTest, WithoutAnySolver) {
  const char* const path = std::getenv("PATH");
  const std::string kept = path == nullptr ? "" : path;
  setenv("PATH", "/nonexistent", 1);
  const auto none = ChooseSolver(std::nullopt, kMaxExactJobs + 1);
  const auto cbc = ChooseSolver(SolverKind::kCbc, 2);
  setenv("PATH", kept.c_str(), 1);
  EXPECT_EQ(none.status().message(),
            "13 jobs need a solver, because the exact search places at most 12, and none is "
            "installed; install Debian's package coinor-cbc or glpk-utils");
  EXPECT_EQ(cbc.status().message(),
            "solver cbc is not installed; install Debian's package coinor-cbc");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
