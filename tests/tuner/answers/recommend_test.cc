#include "server/tuner/answers/recommend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/choice/choice.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/best_plans.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/question_search.h"
#include "tests/tuner/prepared.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

StudyResult Result(const StudyRequest& request) {
  return std::get<StudyResult>(RunStudy(request, Known(), {}).value());
}

// The first plan is safe, and is not slower than the fastest plan of a search that has as much less
// memory, but by a tie.
TEST(RecommendTest, TheFastestPlanThatIsSure) {
  StudyRequest request = TightRequest();
  request.choice.tie_probability = 0.5;  // no ties
  const StudyResult result = Result(request);
  const RankedPlan& optimum = *result.model_optimum;
  ASSERT_LT(optimum.estimate.fit_probability, 0.95);
  for (const RankedPlan& ranked : result.plans) {
    EXPECT_GE(ranked.estimate.fit_probability, 0.95);
    EXPECT_GT(ranked.estimate.step_time, optimum.estimate.step_time);
  }
  EXPECT_THAT(result.recommendation->reason,
              HasSubstr("The fastest plan by the model fits with a probability of only "));
  const std::vector<VerdictFact>& facts = result.recommendation->facts;
  ASSERT_GE(facts.size(), 2U);
  EXPECT_EQ(facts[0].code, VerdictCode::kOptimumMayNotFit);
  EXPECT_EQ(facts[0].fit_probability, optimum.estimate.fit_probability);
  EXPECT_EQ(facts[1].code, VerdictCode::kSlower);
  EXPECT_EQ(facts[1].slower_ratio,
            result.plans.front().estimate.step_time / optimum.estimate.step_time - 1);

  // A probability of 0.95 leaves 1.645 sigma of 0.05: 7.9 % of the memory, exp(-0.0822).
  request.question.cluster.pools.front().memory_capacity = Scale(GiB(22), 0.9210);
  request.choice = kModelOrder;
  const StudyResult smaller = Result(request);
  EXPECT_EQ(result.plans.front().plan, smaller.plans.front().plan);
  EXPECT_EQ(result.plans.front().estimate.step_time, smaller.plans.front().estimate.step_time);
}

TEST(RecommendTest, EveryLineIsAnotherKind) {
  StudyRequest request = TightRequest();
  request.choice.tie_probability = 0.95;
  const StudyResult result = Result(request);
  ASSERT_EQ(result.plans.size(), 5U);
  double sum = 0;
  int others = 0;
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const RankedPlan& line = result.plans[i];
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(AreOneKind(line.plan, result.plans[j].plan)) << i << " " << j;
    }
    EXPECT_EQ(line.like_count == 0, line.like_ranges.empty()) << i;
    sum += line.fastest_probability.value();
    others += line.like_count;
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_GT(others, 0);
}

// All plans that may be tied are ranked, however few are shown.
TEST(RecommendTest, ALongerListHasTheSameFirstPlan) {
  StudyRequest request = TightRequest();
  const RankedPlan first = Result(request).plans.front();
  for (const int count : {1, 20}) {
    request.plan_count = count;
    EXPECT_EQ(Result(request).plans.front().plan, first.plan) << count;
  }
}

// The search keeps exactly the plans that a list of the whole space has within 5 %.
TEST(RecommendTest, TheTieIsExact) {
  const PreparedQuestion question = Prepared(TightRequest());
  SearchOptions options = {.plan_count = 1, .close_ratio = kMaxTieRatio};
  const SearchFound found = BestPlansOf(question.problem, {}, options);
  ASSERT_FALSE(found.close.empty());
  const Seconds best = found.best.front().estimate.step_time;
  SearchOptions all = {
      .plan_count = found.close.size() + 1,
      .are_alike = [](const ParallelPlan& a, const ParallelPlan& b) { return a == b; }};
  const SearchFound listed = BestPlansOf(question.problem, {}, all);
  ASSERT_EQ(listed.best.size(), found.close.size() + 1);
  EXPECT_GT(listed.best.back().estimate.step_time, best * kMaxTieRatio);
  for (std::size_t i = 0; i < found.close.size(); ++i) {
    EXPECT_EQ(found.close[i].plan, listed.best[i].plan) << i;
  }
}

TEST(RecommendTest, TheModelsOrderOnRequest) {
  StudyRequest request = TightRequest();
  const RankedPlan optimum = *Result(request).model_optimum;
  request.choice = kModelOrder;
  const StudyResult result = Result(request);
  EXPECT_EQ(result.plans.front().plan, optimum.plan);
  EXPECT_EQ(result.model_optimum->plan, optimum.plan);
  EXPECT_THAT(result.recommendation->reason, HasSubstr("It is the fastest plan by the model"));
}

TEST(RecommendTest, SaysSoIfNoPlanIsSure) {
  StudyRequest request = TightRequest();
  request.choice.min_fit_probability = kMaxFitProbability;
  request.question.cluster.pools.front().memory_capacity = GiB(11);
  const StudyResult result = Result(request);
  ASSERT_LT(result.plans.front().estimate.fit_probability, kMaxFitProbability);
  EXPECT_THAT(result.recommendation->reason, HasSubstr("No plan was found that fits with"));
}

// The answer says so if only a closed feature makes a plan sure to fit.
TEST(RecommendTest, SaysThatOffloadWouldBeSure) {
  constexpr char kWouldBeSure[] = "with offload of optimizer states to the host, a plan fits";
  StudyRequest request = TightRequest();
  EXPECT_THAT(Result(request).warnings, Not(Contains(HasSubstr(kWouldBeSure))));
  request.question.cluster.pools.front().memory_capacity = GiB(11);
  request.choice.min_fit_probability = kMaxFitProbability;
  const StudyResult result = Result(request);
  ASSERT_LT(result.plans.front().estimate.fit_probability, kMaxFitProbability);
  EXPECT_EQ(result.plans.front().plan.optimizer_offload_ratio, 0);
  EXPECT_THAT(result.warnings, Contains(HasSubstr(kWouldBeSure)));
}

// An answer whose second search was cut does not pass for proven.
TEST(RecommendTest, WarnsIfTheSecondSearchIsCut) {
  const PreparedQuestion question = Prepared(TightRequest());
  SearchOptions options;
  const SearchFound found = BestPlansOf(question.problem, {}, options);
  std::vector<std::string> warnings;
  SafePlans(question, found, options, warnings);
  EXPECT_THAT(warnings, testing::IsEmpty());
  options.stop = [] { return std::optional(StopCause::kDeadline); };
  SafePlans(question, found, options, warnings);
  EXPECT_THAT(warnings, testing::ElementsAre(HasSubstr("ended early")));
}

TEST(RecommendTest, KeepsAPlanThatCannotBeToldFromTheBest) {
  StudyRequest request = TightRequest();
  const StudyResult first = Result(request);
  request.baseline = StatedPlan(first.plans.back().plan);
  request.choice.tie_probability = 1;  // everything is tied
  const StudyResult result = Result(request);
  EXPECT_EQ(result.recommendation->advice, Advice::kKeepYours);
  EXPECT_EQ(result.plans.front().plan, first.plans.back().plan);
  EXPECT_THAT(result.recommendation->reason,
              HasSubstr("cannot be told apart from the one that would be recommended"));
  EXPECT_EQ(result.recommendation->facts.back().code, VerdictCode::kOwnTied);

  request.baseline = StatedPlan({.tensor_parallel = 8, .pipeline_parallel = 2});
  request.choice.tie_probability = 0.7;
  const StudyResult slow = Result(request);
  EXPECT_EQ(slow.recommendation->advice, Advice::kLaunch);
  EXPECT_NE(slow.plans.front().plan, slow.baseline->plan);
}

// Optimizer offload rests on an assumed host.
TEST(RecommendTest, OffloadOnlyOnRequestOrIfNothingElseFits) {
  StudyRequest request = TightRequest();
  for (const RankedPlan& ranked : Result(request).plans) {
    EXPECT_EQ(ranked.plan.optimizer_offload_ratio, 0);
  }
  request.question.cluster.pools.front().memory_capacity = GiB(6);
  const StudyResult least = Result(request);
  EXPECT_GT(least.plans.front().plan.optimizer_offload_ratio, 0);
  EXPECT_EQ(least.plans.front().estimate.provenance, Provenance::kAssumed);
  EXPECT_THAT(least.warnings,
              Contains(HasSubstr("no plan fits unless optimizer states are offloaded")));

  request.dimensions = {{.name = "optimizer_offload_ratio", .values = {"0"}}};
  EXPECT_TRUE(std::holds_alternative<Infeasible>(RunStudy(request, Known(), {}).value()));
  request.question.cluster.pools.front().memory_capacity = GiB(22);
  request.dimensions = {{.name = "optimizer_offload_ratio", .values = {"1"}}};
  EXPECT_EQ(Result(request).plans.front().plan.optimizer_offload_ratio, 1);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
