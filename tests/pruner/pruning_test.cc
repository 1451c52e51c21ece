#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "estimator/model/analytic_model.h"
#include "pruner/pruner.h"
#include "search_space/space/space.h"
#include "server/tuner/question/problem.h"
#include "tests/pruner/open_problem.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

const RuleTally& TallyOf(const Pruning& pruning, std::string_view rule) {
  return *std::ranges::find(pruning.tallies(), rule,
                            [](const RuleTally& tally) { return tally.rule->name; });
}

class PruningTest : public testing::Test {
 protected:
  // No rule about sizes accepts three devices for four heads.
  ParallelPlan indivisible_ = {.tensor_parallel = 3};
  Problem problem_ = OpenProblem(TinyQuestion());
  EstimatorProblem view_ = ToEstimatorProblem(problem_);
  SearchSpace space_ = SpaceOf(problem_);
  PruneContext context_ = {.problem = view_, .space = space_};
};

TEST_F(PruningTest, TheFirstRuleThatRejectsAPrefixCountsThePlansBelow) {
  Pruning pruning;
  const std::int64_t below = space_.CountBelow(indivisible_, 1);
  EXPECT_EQ(pruning.CutPrefix(context_, indivisible_, 1), below);
  EXPECT_EQ(TallyOf(pruning, "divisibility").count, below);
  for (const RuleTally& tally : pruning.tallies()) {
    const bool is_first = tally.rule->name == "divisibility";
    EXPECT_EQ(tally.count, is_first ? below : 0) << tally.rule->name;
  }
  EXPECT_EQ(pruning.CutPrefix(context_, {.tensor_parallel = 2}, 1), std::nullopt);
}

TEST_F(PruningTest, ARuleThatIsOffLeavesThePrefixToTheOthers) {
  Pruning pruning({"divisibility"});
  EXPECT_FALSE(pruning.IsOn("divisibility"));
  EXPECT_TRUE(pruning.IsOn("topology"));
  EXPECT_TRUE(pruning.CutPrefix(context_, indivisible_, 1).has_value());
  EXPECT_EQ(TallyOf(pruning, "divisibility").count, 0);
  Pruning neither({"divisibility", "topology"});
  EXPECT_EQ(neither.CutPrefix(context_, indivisible_, 1), std::nullopt);
}

// The clock advances by one second per reading, so each hook takes one second. A hook is called
// once per prefix if its rule is enabled and no earlier rule has rejected the prefix.
TEST_F(PruningTest, EachHookIsTimed) {
  Seconds now(0);
  Pruning pruning({"topology"}, [&now] { return now += Seconds(1); });
  pruning.CutPrefix(context_, {.tensor_parallel = 2}, 1);
  pruning.CutPrefix(context_, {.tensor_parallel = 3}, 1);
  EXPECT_EQ(TallyOf(pruning, "divisibility").time, Seconds(2));
  EXPECT_EQ(TallyOf(pruning, "topology").time, Seconds(0));
  EXPECT_EQ(TallyOf(pruning, kBoundRule).time, Seconds(1));
  Pruning all;
  all.Merge(pruning);
  EXPECT_EQ(TallyOf(all, "divisibility").time, Seconds(2));
  EXPECT_EQ(TallyOf(all, "divisibility").count, TallyOf(pruning, "divisibility").count);
}

TEST_F(PruningTest, APricedPlanIsRejectedByItsMemory) {
  const ParallelPlan plan = {.data_parallel = 4};
  Pruning pruning;
  const auto judge = [&](bool fits, bool fits_device) {
    const auto rejection = pruning.CutPlan(
        context_, {.plan = plan, .memory = {.fits = fits, .fits_device = fits_device}});
    return rejection.has_value() ? std::optional(rejection->rule) : std::nullopt;
  };
  EXPECT_EQ(judge(true, true), std::nullopt);
  EXPECT_EQ(judge(false, false), kMemoryRule);
  EXPECT_EQ(judge(false, true), kHistoryRule);  // as large as the run that ran out of memory
  EXPECT_EQ(TallyOf(pruning, kMemoryRule).count, 1);
  EXPECT_EQ(TallyOf(pruning, kHistoryRule).count, 1);
}

// Without a cost model, only rules about sizes reject anything.
TEST_F(PruningTest, SizesNeedNoModel) {
  Pruning pruning;
  EXPECT_TRUE(pruning.IsCutBySizes(context_, indivisible_, 1));
  const Pruning neither({"divisibility", "topology"});
  EXPECT_FALSE(neither.IsCutBySizes(context_, indivisible_, 1));
  Problem tiny = problem_;
  tiny.cluster.pools.front().memory_capacity = Bytes{1};
  const EstimatorProblem view = ToEstimatorProblem(tiny);
  AnalyticModel model(view);
  const ParallelPlan plan = {.data_parallel = 4};
  const int depth = static_cast<int>(Dimension::kRankOrder) + 1;
  const PruneContext priced = {.problem = view, .space = space_, .model = &model};
  EXPECT_FALSE(pruning.IsCutBySizes(priced, plan, depth));
  EXPECT_EQ(TallyOf(pruning, "divisibility").count, 0);  // only asked, so nothing is counted
  EXPECT_TRUE(pruning.CutPrefix(priced, plan, depth).has_value());
  EXPECT_GT(TallyOf(pruning, kMemoryRule).count, 0);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
