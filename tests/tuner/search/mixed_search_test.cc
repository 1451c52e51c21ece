#include "server/tuner/search/mixed/mixed_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>

#include "estimator/learning/calibration.h"
#include "estimator/legality/legality.h"
#include "estimator/model/analytic_model.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/search/mixed_problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// The number of problems can be set, for bench/mixed_search.sh.
int ProblemCount() {
  const char* const count = std::getenv("MESHWRIGHT_MIXED_PROBLEMS");
  return count == nullptr ? 25 : std::atoi(count);
}

// Compares the search with a plain list of all plans in `count` problems, under what `lessons` says
// of each.
void ExpectTheFastest(int count, const std::function<Calibration(const Problem&)>& lessons) {
  constexpr std::int64_t kMaxListed = 10'000;
  std::mt19937_64 random(28);
  int with_plan = 0;
  int tried = 0;
  while (tried < count) {
    const Problem problem = RandomMixedProblem(random);
    const Calibration calibration = lessons(problem);
    const std::optional<ListedMixes> listed = ListMixes(problem, kMaxListed, calibration);
    if (!listed.has_value()) continue;
    ++tried;
    SCOPED_TRACE(tried);
    const MixedFound found = SearchMixed(problem, calibration, {});
    const SetFound* const fastest = FastestOf(found.sets);
    ASSERT_EQ(fastest != nullptr, listed->least.has_value());
    for (const SetFound& set : found.sets) EXPECT_TRUE(set.IsProven());
    if (fastest == nullptr) continue;
    ++with_plan;
    const double share = fastest->best->estimate.step_time / *listed->least;
    EXPECT_NEAR(share, 1, 1e-9) << MakePlanKey(listed->fastest).text << "\n"
                                << MakePlanKey(fastest->best->plan).text;
  }
  EXPECT_GT(with_plan, count / 3);
}

TEST(MixedSearchTest, FindsTheFastestOfAllPlans) {
  ExpectTheFastest(ProblemCount(), [](const Problem&) { return Calibration(); });
}

TEST(MixedSearchTest, FindsTheFastestOfAllPlansWhoseReplicasDiffer) {
  constexpr std::int64_t kMaxListed = 10'000;
  const int count = ProblemCount();
  std::mt19937_64 random(1);
  int with_plan = 0;
  int tried = 0;
  while (tried < count) {
    Problem problem = RandomReplicaProblem(random);
    // FlagScale 0.3 has replicas that differ in few ways.
    if (tried % 5 == 4) problem.legality = LegalityRulesOf("flagscale", "0.3");
    const std::optional<ListedMixes> listed = ListReplicas(problem, kMaxListed);
    if (!listed.has_value()) continue;
    ++tried;
    SCOPED_TRACE(tried);
    const MixedFound found = SearchMixed(problem, {}, {});
    const SetFound* const fastest = FastestOf(found.replicas);
    ASSERT_EQ(fastest != nullptr, listed->least.has_value()) << MakePlanKey(listed->fastest).text;
    for (const SetFound& set : found.replicas) EXPECT_TRUE(set.IsProven());
    if (fastest == nullptr) continue;
    ++with_plan;
    const double share = fastest->best->estimate.step_time / *listed->least;
    EXPECT_NEAR(share, 1, 1e-9) << MakePlanKey(listed->fastest).text << "\n"
                                << MakePlanKey(fastest->best->plan).text;
    AnalyticModel model(ToEstimatorProblem(problem));
    EXPECT_EQ(model.Full(fastest->best->plan).step_time, fastest->best->estimate.step_time);
  }
  EXPECT_GT(with_plan, count / 3);
}

// The chips of the first pool are slower than modelled and need more memory; the others are faster
// and need less.
TEST(MixedSearchTest, FindsTheFastestByWhatRunsTaughtOfEachChip) {
  ExpectTheFastest((ProblemCount() + 1) / 2, [](const Problem& problem) {
    Calibration calibration;
    for (const NodePool& pool : problem.cluster.pools) {
      if (LessonOf(calibration, pool.chip.id) != nullptr) continue;
      const bool is_first = calibration.chips.empty();
      calibration.chips.push_back({.chip = pool.chip.id,
                                   .time_ratio = is_first ? 1.7 : 0.8,
                                   .memory_ratio = is_first ? 1.15 : 0.9});
    }
    return calibration;
  });
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
