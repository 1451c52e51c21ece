#include "server/tuner/search/mixed/mixed_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <random>

#include "server/tuner/question/problem.h"
#include "tests/tuner/search/mixed_problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// The number of problems can be set, for bench/mixed_search.sh.
int ProblemCount() {
  const char* const count = std::getenv("MESHWRIGHT_MIXED_PROBLEMS");
  return count == nullptr ? 25 : std::atoi(count);
}

TEST(MixedSearchTest, FindsTheFastestOfAllPlans) {
  constexpr std::int64_t kMaxListed = 10'000;
  std::mt19937_64 random(28);
  int with_plan = 0;
  int tried = 0;
  while (tried < ProblemCount()) {
    const Problem problem = RandomMixedProblem(random);
    const std::optional<ListedMixes> listed = ListMixes(problem, kMaxListed);
    if (!listed.has_value()) continue;
    ++tried;
    SCOPED_TRACE(tried);
    const MixedFound found = SearchMixed(problem, {}, {});
    const SetFound* const fastest = FastestOf(found.sets);
    ASSERT_EQ(fastest != nullptr, listed->least.has_value());
    for (const SetFound& set : found.sets) EXPECT_TRUE(set.IsProven());
    if (fastest == nullptr) continue;
    ++with_plan;
    const double share = fastest->best->estimate.step_time / *listed->least;
    EXPECT_NEAR(share, 1, 1e-9) << MakePlanKey(listed->fastest).text << "\n"
                                << MakePlanKey(fastest->best->plan).text;
  }
  EXPECT_GT(with_plan, ProblemCount() / 3);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
