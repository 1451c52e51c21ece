#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "pruner/pruner.h"
#include "pruner/rules/prune_rule.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/infeasible.h"
#include "server/tuner/search/search_by_strategy.h"
#include "server/tuner/search/strategies.h"
#include "server/tuner/search/strategy.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// The contract that every strategy of the table keeps.

// Returns a question with four devices and a part of the choices.
Problem Small() {
  Problem problem = Resolved(TinyQuestion());
  problem.space.chosen[Dimension::kMicroBatchSize] = {.values = {1, 4}};
  problem.space.chosen[Dimension::kZeroStage] = {.values = {0, 1}};
  return problem;
}

// Returns a question with every kind of choice: experts, context parallelism, schedules, end stages
// (of 6 layers, with chunks too) and sharding groups.
Problem Wide() {
  Question question = TinyQuestion();
  question.model = TinyExperts();
  question.model.layer_count = 6;
  question.workload = {
      .sequence_length = 4096,
      .global_batch_size = 16,
      .framework_name = "megatron-core",
      .framework_facts = {{.name = "schedules", .value = "1f1b zb_h1 dualpipe interleaved_1f1b"}}};
  question.cluster.pools = {Nodes(2, 4)};
  return Resolved(question);
}

// Returns the plans of the space that pass the rules without a cost model.
std::set<ParallelPlan> LegalPlansOf(const Problem& problem) {
  const SearchSpace space = SpaceOf(problem);
  const EstimatorProblem view = ToEstimatorProblem(problem);
  const Pruning pruning;
  std::set<ParallelPlan> plans;
  for (PlanWalk walk(space); walk.Next();) {
    if (pruning.IsCutBySizes({.problem = view, .space = space}, walk.plan(), walk.depth())) {
      walk.Skip();
    } else if (walk.is_plan()) {
      plans.insert(walk.plan());
    }
  }
  return plans;
}

// A strategy and the problem that it works on.
class Session {
 public:
  Session(std::string_view name, Problem problem, std::uint64_t seed = 1)
      : problem_(std::move(problem)),
        strategy_(MakeStrategy(
            name, {.space = space_, .problem = ToEstimatorProblem(problem_), .seed = seed})) {}

  std::optional<ParallelPlan> Ask() { return strategy_->Ask(); }
  void TellItMisses(const ParallelPlan& plan) {
    strategy_->Tell({.plan = plan, .reserved_memory = GiB(100)});
  }

  // Asks at most `limit` times and tells the model's results.
  std::vector<ParallelPlan> Run(std::size_t limit) {
    std::vector<ParallelPlan> plans;
    while (plans.size() < limit) {
      const auto plan = strategy_->Ask();
      if (!plan.has_value()) break;
      plans.push_back(*plan);
      const QuickEstimate estimate = model_.Quick(*plan);
      Observation observation = {.plan = *plan, .reserved_memory = estimate.reserved_memory};
      if (estimate.fits) observation.step_time = estimate.step_time;
      strategy_->Tell(observation);
    }
    return plans;
  }

  SearchFound Search(const SearchOptions& options, int limit) {
    return SearchByStrategy(*strategy_, model_, space_, options, limit);
  }
  [[nodiscard]] SearchFound Best(const SearchOptions& options) const {
    return SearchExhaustively(space_, ToEstimatorProblem(problem_), {}, options);
  }
  [[nodiscard]] const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
  SearchSpace space_ = SpaceOf(problem_);
  AnalyticModel model_ = AnalyticModel(ToEstimatorProblem(problem_));
  std::unique_ptr<SearchStrategy> strategy_;
};

class StrategyTest : public testing::TestWithParam<std::string> {
 protected:
  static Session On(Problem problem, std::uint64_t seed = 1) {
    return Session(GetParam(), std::move(problem), seed);
  }
  static bool IsExhaustive() { return GetParam() == kExhaustive; }
};

void ExpectLegalAndNew(const std::vector<ParallelPlan>& plans, const Problem& problem) {
  const std::set<ParallelPlan> legal = LegalPlansOf(problem);
  std::set<ParallelPlan> seen;
  for (const ParallelPlan& plan : plans) {
    EXPECT_THAT(CheckPlan(plan, problem, "plan"), testing::IsEmpty()) << MakePlanKey(plan).text;
    EXPECT_TRUE(legal.contains(plan)) << MakePlanKey(plan).text;
    EXPECT_TRUE(seen.insert(plan).second) << "asked twice: " << MakePlanKey(plan).text;
  }
}

TEST_P(StrategyTest, AsksForLegalPlansOfTheSpaceAndForNoneTwice) {
  for (const Problem& problem : {Small(), Wide()}) {
    Session session = On(problem);
    const std::vector<ParallelPlan> plans = session.Run(500);
    EXPECT_GE(plans.size(), IsExhaustive() ? 1U : 100U);
    ExpectLegalAndNew(plans, problem);
  }
}

TEST_P(StrategyTest, SameSeedSamePlans) {
  EXPECT_EQ(On(Wide(), 7).Run(300), On(Wide(), 7).Run(300));
  if (!IsExhaustive()) {
    EXPECT_NE(On(Wide(), 7).Run(300), On(Wide(), 8).Run(300));
  }
}

TEST_P(StrategyTest, GoesOnWhenNothingFits) {
  Session session = On(Wide());
  std::vector<ParallelPlan> plans;
  while (plans.size() < 500) {
    const auto plan = session.Ask();
    if (!plan.has_value()) break;
    plans.push_back(*plan);
    session.TellItMisses(*plan);
  }
  EXPECT_TRUE(IsExhaustive() || plans.size() == 500);
  ExpectLegalAndNew(plans, session.problem());
}

// Every strategy but `exhaustive`, which asks only for the best plans, ends with the last legal
// plan.
TEST_P(StrategyTest, EndsAndHasSeenTheOptimum) {
  const std::set<ParallelPlan> legal = LegalPlansOf(Small());
  Session session = On(Small());
  const std::vector<ParallelPlan> plans = session.Run(legal.size() + 1);
  EXPECT_LE(plans.size(), legal.size());
  if (!IsExhaustive()) {
    EXPECT_EQ(std::set<ParallelPlan>(plans.begin(), plans.end()), legal);
  }
  EXPECT_FALSE(session.Ask().has_value());
  AnalyticModel model(ToEstimatorProblem(session.problem()));
  Seconds least(std::numeric_limits<double>::infinity());
  for (const ParallelPlan& plan : plans) {
    const QuickEstimate estimate = model.Quick(plan);
    if (estimate.fits) least = std::min(least, estimate.step_time);
  }
  EXPECT_EQ(least, session.Best({.plan_count = 1}).best.front().estimate.step_time);
}

// A walk over all plans ranks them as the exhaustive search without its rules does.
TEST_P(StrategyTest, TheDriverKeepsTheBestPlans) {
  Session session = On(Small());
  const SearchOptions options = {.plan_count = 3,
                                 .disabled_rules = {"memory", "dominance", "bound"}};
  const SearchFound found = session.Search(options, 1'000'000);
  EXPECT_FALSE(found.summary.complete);
  EXPECT_EQ(found.summary.stop_cause, StopCause::kFinished);
  const SearchFound best = session.Best(options);
  ASSERT_EQ(found.best.size(), 3U);
  EXPECT_EQ(found.best.front().estimate.step_time, best.best.front().estimate.step_time);
  if (IsExhaustive()) return;  // has asked for no plan that is dominated
  EXPECT_EQ(found.summary.evaluated_count,
            static_cast<std::int64_t>(LegalPlansOf(session.problem()).size()));
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    EXPECT_EQ(found.best[i].plan, best.best[i].plan) << i;
  }
}

TEST_P(StrategyTest, NothingIsBetterThanTheOptimum) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Session session = On(Wide(), seed);
    const SearchFound found = session.Search({}, 1'000);
    ASSERT_FALSE(found.best.empty());
    EXPECT_GE(found.best.front().estimate.step_time,
              session.Best({}).best.front().estimate.step_time);
    EXPECT_LE(found.summary.evaluated_count, 1'000);
    EXPECT_EQ(found.summary.stop_cause,
              IsExhaustive() ? StopCause::kFinished : StopCause::kEvaluationLimit);
    EXPECT_FALSE(found.summary.complete);
    EXPECT_EQ(found.summary.space_count, SpaceOf(session.problem()).Count());
  }
}

TEST_P(StrategyTest, TheNearestMissIsKeptWhenNothingFits) {
  Problem problem = Small();
  problem.cluster.pools.front().memory_capacity = GiB(0.1);
  Session session = On(problem);
  const SearchFound found = session.Search({}, 1'000'000);
  EXPECT_TRUE(found.best.empty());
  if (IsExhaustive()) return;  // knows none that fits, so asks for none
  const SearchFound best = session.Best({.disabled_rules = {"memory", "dominance", "bound"}});
  ASSERT_TRUE(found.nearest.has_value());
  EXPECT_EQ(found.nearest->reserved_memory, best.nearest->reserved_memory);
}

TEST_P(StrategyTest, StopsWhenItIsTold) {
  const SearchFound found =
      On(Wide()).Search({.stop = [] { return std::optional(StopCause::kCancelled); }}, 100);
  EXPECT_EQ(found.summary.stop_cause, StopCause::kCancelled);
  EXPECT_EQ(found.summary.evaluated_count, 0);
}

TEST_P(StrategyTest, ASpaceWithoutLegalPlansHasNothingToAsk) {
  Problem problem = Small();
  // Three does not divide four devices.
  problem.space.chosen[Dimension::kTensorParallel] = {.values = {3}};
  EXPECT_FALSE(On(problem).Ask().has_value());
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const StrategyRow& row : Strategies()) names.emplace_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, StrategyTest, testing::ValuesIn(Names()),
                         [](const auto& name) { return name.param; });

// Over many seeds the first draw meets every legal plan equally often.
void ExpectEqualDraws(const Problem& problem) {
  const std::set<ParallelPlan> legal = LegalPlansOf(problem);
  const SearchSpace space = SpaceOf(problem);
  constexpr int kMean = 100;
  const auto draws = static_cast<std::uint64_t>(kMean) * legal.size();
  std::map<ParallelPlan, int> counts;
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    const auto random = MakeStrategy(
        "random", {.space = space, .problem = ToEstimatorProblem(problem), .seed = seed});
    ++counts[random->Ask().value()];
  }
  EXPECT_EQ(counts.size(), legal.size());
  // Counts are binomial with mean 100 and deviation 10; chi-squared has as many degrees of freedom
  // as there are plans less one: mean n - 1, deviation sqrt(2 (n - 1)).
  double chi_squared = 0;
  for (const auto& [plan, count] : counts) {
    chi_squared += (count - kMean) * (count - kMean) / static_cast<double>(kMean);
  }
  const double freedom = static_cast<double>(legal.size()) - 1;
  EXPECT_LT(chi_squared, freedom + 4 * std::sqrt(2 * freedom));
}

TEST(RandomStrategyTest, DrawsEveryPlanEquallyOften) {
  Problem problem = Small();
  problem.space.chosen[Dimension::kTensorParallel] = {.values = {1, 2}};
  problem.space.chosen[Dimension::kRecompute] = {.values = {0, 1}};
  ExpectEqualDraws(problem);
}

// Two stages of 6 layers: with two chunks each 4 + 2 or 2 + 4 layers, with three 3 + 3, and every
// split without chunks.
TEST(RandomStrategyTest, DrawsUnevenStagesOfChunksEquallyOften) {
  Question question = TinyQuestion();
  question.model.layer_count = 6;
  Problem problem = Resolved(question);
  problem.space.chosen[Dimension::kPipelineParallel] = {.values = {2}};
  problem.space.chosen[Dimension::kTensorParallel] = {.values = {1}};
  problem.space.chosen[Dimension::kMicroBatchSize] = {.values = {1, 4}};
  problem.space.chosen[Dimension::kZeroStage] = {.values = {0}};
  problem.space.chosen[Dimension::kRecompute] = {.values = {0, 1}};
  ExpectEqualDraws(problem);
}

TEST(StrategiesTest, UnknownNamesHaveNone) {
  const Problem problem = Small();
  const SearchSpace space = SpaceOf(problem);
  EXPECT_EQ(MakeStrategy("magic", {.space = space, .problem = ToEstimatorProblem(problem)}),
            nullptr);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
