#include "server/tuner/choice/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <vector>

#include "estimator/learning/uncertainty.h"
#include "search_space/base/units.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/choice/plainness.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

// Plans whose errors are independent, so that the sigma of a difference is easy to work out.
class ChoiceTest : public testing::Test {
 protected:
  // Adds a plan with a step of so many seconds that fits with this probability.
  ParallelPlan& Add(double seconds, double fit_probability, double sigma = 0) {
    Estimate& estimate = estimates_.emplace_back();
    estimate.step_time = Seconds(seconds);
    estimate.fit_probability = fit_probability;
    TimeUncertainty& uncertainty = uncertainties_.emplace_back();
    uncertainty.noise_variance = sigma * sigma / 2;
    return plans_.emplace_back();
  }

  std::vector<std::size_t> Rank(const ChoiceLimits& limits = {}, const KnownPlans& known = {}) {
    return Choose(limits, known).order;
  }

  Choice Choose(const ChoiceLimits& limits = {}, const KnownPlans& known = {}) {
    std::vector<Alternative> alternatives;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      alternatives.push_back({plans_[i], estimates_[i], uncertainties_[i], 4096});
    }
    return RankChoices(alternatives, limits, known);
  }

  std::deque<ParallelPlan> plans_;
  std::deque<Estimate> estimates_;
  std::deque<TimeUncertainty> uncertainties_;
};

TEST_F(ChoiceTest, NothingToChoose) { EXPECT_THAT(Rank(), IsEmpty()); }

TEST_F(ChoiceTest, FastestOfTheSafe) {
  Add(10, 0.999, 0.001);
  Add(9, 0.6, 0.001);
  Add(8, 0.94, 0.001);
  Add(11, 1, 0.001);
  EXPECT_THAT(Rank(), ElementsAre(0, 3, 2, 1));
  EXPECT_THAT(Rank({.min_fit_probability = 0.9}), ElementsAre(2, 0, 3, 1));
}

// Below the minimum: 8 s at 0.5 is expected to cost 0.5 x 8 + 0.5 x 2 x 10 = 14 s a step, 10 s at
// 0.9 costs 0.9 x 10 + 0.1 x 2 x 10 = 11 s.
TEST_F(ChoiceTest, ExpectedCostWhereNoneIsSafe) {
  Add(8, 0.5, 0.001);
  Add(10, 0.9, 0.001);
  EXPECT_THAT(Rank(), ElementsAre(1, 0));
}

TEST_F(ChoiceTest, TheModelsOrder) {
  Add(10, 0.999, 0.05);
  Add(9.99, 0.5, 0.05);
  EXPECT_THAT(Rank(kModelOrder), ElementsAre(1, 0));
}

// A difference of 5 % under a sigma of 10 % is seen with a probability of 0.69: a tie, which the
// plan that is surer to fit wins. 10 % is seen with 0.83: no tie. The first costs 0.97 x 10 + 0.03
// x 2 x 10.5 = 10.33 s.
TEST_F(ChoiceTest, SurerOfTwoThatAreTied) {
  Add(10, 0.97, 0.1);
  Add(10.5, 1, 0.1);
  EXPECT_THAT(Rank(), ElementsAre(1, 0));
  EXPECT_THAT(Rank({.tie_probability = 0.68}), ElementsAre(0, 1));
  estimates_[1].step_time = Seconds(11);
  EXPECT_THAT(Rank(), ElementsAre(0, 1));
  EXPECT_THAT(Rank({.tie_probability = 0.9}), ElementsAre(0, 1));  // a tie costs at most 5 %
  estimates_[1].step_time = Seconds(10.4);
  EXPECT_THAT(Rank({.tie_probability = 0.9}), ElementsAre(1, 0));
}

TEST_F(ChoiceTest, BetterFoundedThenPlainerThenNearer) {
  Add(10, 1, 0.05).optimizer_offload_ratio = 0.5;
  Add(10.05, 1, 0.05).tensor_parallel = 4;
  Add(10.1, 1, 0.05).tensor_parallel = 2;
  Add(10.15, 1, 0.05).tensor_parallel = 8;
  estimates_[3].provenance = Provenance::kMeasured;
  EXPECT_THAT(Rank(), ElementsAre(3, 1, 2, 0));
  ParallelPlan own;
  own.tensor_parallel = 2;
  EXPECT_THAT(Rank({}, {.own = own}), ElementsAre(3, 2, 1, 0));
}

TEST_F(ChoiceTest, TheMoreUsualOfTwoThatAreTied) {
  Add(10, 1, 0.05).tensor_parallel = 2;
  ParallelPlan& usual = Add(10.01, 1, 0.05);
  usual.tensor_parallel = 2;
  usual.sequence_parallel = true;
  const Choice choice = Choose();
  EXPECT_THAT(choice.order, ElementsAre(1, 0));
  EXPECT_EQ(choice.reason, ChoiceReason::kMoreUsual);
  estimates_[1].step_time = Seconds(10.2);  // still a tie, but the time decides
  EXPECT_THAT(Rank(), ElementsAre(0, 1));
}

TEST_F(ChoiceTest, ThePublishedRecipeWinsATie) {
  Add(10, 1, 0.05).tensor_parallel = 2;
  ParallelPlan& recipe = Add(10.2, 1, 0.05);
  recipe.tensor_parallel = 4;
  const Choice choice = Choose({}, {.recipe = recipe});
  EXPECT_THAT(choice.order, ElementsAre(1, 0));
  EXPECT_EQ(choice.reason, ChoiceReason::kPublished);
  estimates_[1].step_time = Seconds(11);
  EXPECT_THAT(Rank({}, {.recipe = recipe}), ElementsAre(0, 1));
}

// Context parallelism on a short sequence has not been measured. 20 % under a sigma of 15 % for it
// are true with a probability of 0.88, and 25 % with one of 0.93.
TEST_F(ChoiceTest, AnUnmeasuredFeatureYieldsUnlessItIsSurelyFaster) {
  Add(10, 1, 0.02).context_parallel = 2;
  Add(10.7, 1, 0.02);
  Add(10.75, 1, 0.02);
  const Choice choice = Choose();
  EXPECT_THAT(choice.order, ElementsAre(1, 2, 0));
  EXPECT_EQ(choice.reason, ChoiceReason::kCheapest);
  EXPECT_EQ(choice.cheapest, 0U);
  EXPECT_EQ(choice.reference, 1U);
  EXPECT_THAT(Rank({.tie_probability = 0.6}), ElementsAre(1, 2, 0));
  EXPECT_THAT(Rank(kModelOrder), ElementsAre(0, 1, 2));
  estimates_[1].step_time = Seconds(12);
  estimates_[2].step_time = Seconds(12.5);
  EXPECT_EQ(Rank().front(), 1U);
  estimates_[1].step_time = Seconds(12.5);
  EXPECT_EQ(Rank().front(), 0U);
}

// The first yields to the third, so the second does not win by the same feature, although it is
// surer to fit; unless it is what the user runs.
TEST_F(ChoiceTest, AFeatureThatHasYieldedDoesNotComeBack) {
  Add(10, 0.97, 0.02).context_parallel = 2;
  const ParallelPlan& surer = Add(10.7, 1, 0.02);
  plans_[1].context_parallel = 4;
  Add(10.7, 0.97, 0.02);
  const Choice choice = Choose();
  EXPECT_EQ(choice.reference, 2U);
  EXPECT_EQ(choice.order.front(), 2U);
  EXPECT_EQ(choice.tied_count, 1U);
  EXPECT_EQ(Choose({}, {.own = surer}).tied_count, 2U);
}

TEST_F(ChoiceTest, AnUnsafePlanDoesNotEnterTheTie) {
  Add(10, 0.96, 0.05);
  Add(10, 0.94, 0.05);
  estimates_[1].provenance = Provenance::kMeasured;
  EXPECT_THAT(Rank(), ElementsAre(0, 1));
}

TEST_F(ChoiceTest, SaysWhyTheFirstIsFirst) {
  Add(10, 0.97, 0.1);
  EXPECT_EQ(Choose().reason, ChoiceReason::kCheapest);
  Add(10.5, 1, 0.1);
  Add(20, 1, 0.1);
  const Choice choice = Choose();
  EXPECT_EQ(choice.reason, ChoiceReason::kSurerToFit);
  EXPECT_EQ(choice.cheapest, 0U);
  EXPECT_EQ(choice.tied_count, 2U);
}

TEST(Plainness, NamesWhatNoRunHasConfirmed) {
  ParallelPlan plan;
  EXPECT_THAT(UnmeasuredFeatures(plan, 8192), IsEmpty());
  plan.context_parallel_kind = ContextParallelKind::kHybrid;  // without context parallelism
  EXPECT_THAT(UnmeasuredFeatures(plan, 8192), IsEmpty());
  plan.context_parallel = 2;
  plan.optimizer_offload_ratio = 0.25;
  plan.schedule = Schedule::kDualpipe;
  plan.replica_groups.resize(2);
  EXPECT_THAT(UnmeasuredFeatures(plan, 8192),
              ElementsAre("offload of the optimizer", "an unusual pipeline schedule",
                          "replicas that differ", "hybrid context parallelism"));
}

TEST(Plainness, ShortSequencesAreNotSplitInMeasuredRuns) {
  const ParallelPlan plan = {.context_parallel = 2};
  EXPECT_THAT(UnmeasuredFeatures(plan, 8192), IsEmpty());
  EXPECT_THAT(UnmeasuredFeatures(plan, 4096),
              ElementsAre("context parallelism on short sequences"));
}

// Without the features, a space keeps what the user has chosen.
TEST(Plainness, ASpaceLosesWhatNoRunHasConfirmed) {
  SpaceOptions space;
  space.schedules = {Schedule::k1f1b, Schedule::kDualpipe};
  space.offload_percents = {0, 50};
  space.mixes_recompute = true;
  const SpaceOptions less = WithoutUnmeasured(space, 4096);
  EXPECT_THAT(less.schedules, ElementsAre(Schedule::k1f1b));
  EXPECT_THAT(less.offload_percents, ElementsAre(0));
  EXPECT_FALSE(less.mixes_recompute);
  EXPECT_TRUE(less.chosen.at(Dimension::kContextParallel).Allows(1));
  EXPECT_FALSE(less.chosen.at(Dimension::kContextParallel).Allows(2));
  EXPECT_FALSE(WithoutUnmeasured(space, 8192).chosen.contains(Dimension::kContextParallel));
  space.chosen[Dimension::kContextParallel] = {.values = {4}};
  space.chosen[Dimension::kSchedule] = {.values = {static_cast<int>(Schedule::kDualpipe)}};
  const SpaceOptions chosen = WithoutUnmeasured(space, 4096);
  EXPECT_TRUE(chosen.chosen.at(Dimension::kContextParallel).Allows(4));
  EXPECT_EQ(chosen.schedules, space.schedules);
}

TEST(Plainness, UsualPlansSplitSequencesAndHaveFewStages) {
  EXPECT_EQ(Unusualness({}), 0);
  EXPECT_EQ(Unusualness({.tensor_parallel = 2}), 1);
  EXPECT_EQ(Unusualness({.tensor_parallel = 2, .sequence_parallel = true}), 0);
  EXPECT_EQ(Unusualness({.pipeline_parallel = 4, .virtual_pipeline = 5}), 4);
  EXPECT_EQ(Unusualness({.pipeline_parallel = 4, .virtual_pipeline = 10}), 5);
  EXPECT_EQ(Unusualness({.pipeline_parallel = 64}), 6);
}

// tp 8 x dp 16 is nearer to tp 4 x dp 32 than tp 1 x dp 128 is, although each differs in two sizes.
TEST(Plainness, DistanceCountsDoublingsAndFields) {
  const ParallelPlan own = {.tensor_parallel = 4, .data_parallel = 32};
  EXPECT_EQ(DistanceOf(own, own), 0);
  EXPECT_EQ(DistanceOf(own, {.tensor_parallel = 8, .data_parallel = 16}), 2);
  EXPECT_EQ(DistanceOf({.tensor_parallel = 1, .data_parallel = 128}, own), 4);
  ParallelPlan other = own;
  other.recompute.granularity = RecomputeGranularity::kFull;
  other.recompute.layer_counts = {2};
  other.zero_stage = own.zero_stage == 0 ? 1 : 0;
  EXPECT_EQ(DistanceOf(own, other), 2);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
