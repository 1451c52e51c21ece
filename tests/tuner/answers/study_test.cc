#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stop_token>
#include <string>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/answers/explain.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "tests/search_space/models.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

StudyRequest TinyStudy() { return {.question = TinyQuestion()}; }

// Returns Llama-2-7B on two nodes of eight: thousands of groups of plans.
StudyRequest LargerStudy() {
  StudyRequest request = TinyStudy();
  request.question.model = Llama2_7b();
  request.question.workload = {.sequence_length = 4096, .global_batch_size = 256};
  request.question.cluster.pools = {Nodes(2, 8)};
  return request;
}

StudyResult Result(const StudyRequest& request) {
  const auto answer = RunStudy(request, Known(), {});
  EXPECT_TRUE(answer.ok()) << answer.status();
  if (!answer.ok() || !std::holds_alternative<StudyResult>(*answer)) {
    ADD_FAILURE() << "no result";
    return {};
  }
  return std::get<StudyResult>(*answer);
}

// Returns what two answers to one request must share: everything but the wall time.
void ExpectSamePlans(const StudyResult& a, const StudyResult& b) {
  ASSERT_EQ(a.plans.size(), b.plans.size());
  for (std::size_t i = 0; i < a.plans.size(); ++i) {
    EXPECT_EQ(a.plans[i].plan, b.plans[i].plan) << i;
    EXPECT_EQ(a.plans[i].estimate, b.plans[i].estimate) << i;
    EXPECT_EQ(a.plans[i].exports, b.plans[i].exports) << i;
  }
}

TEST(RunStudyTest, PlansAreLegalFitAndStandBestFirst) {
  StudyRequest request = LargerStudy();
  request.plan_count = 12;
  request.choice = kModelOrder;
  const StudyResult result = Result(request);
  const Problem problem = Resolved(request.question);
  ASSERT_EQ(result.plans.size(), 12U);
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const RankedPlan& ranked = result.plans[i];
    EXPECT_THAT(CheckPlan(ranked.plan, problem, "plan"), IsEmpty()) << i;
    EXPECT_TRUE(ranked.estimate.fits) << i;
    EXPECT_LE(ranked.estimate.reserved_memory, ranked.estimate.memory_capacity) << i;
    EXPECT_FALSE(ranked.plan.layers_per_stage.empty()) << "the split is stated";
    if (i == 0) continue;
    const RankedPlan& better = result.plans[i - 1];
    EXPECT_LE(better.estimate.step_time, ranked.estimate.step_time) << i;
    EXPECT_NE(better.plan, ranked.plan) << i;
  }
  const RankedPlan& winner = result.plans.front();
  EXPECT_TRUE(CheckEstimate(winner.plan, winner.estimate, problem).ok());
}

TEST(RunStudyTest, CountsAddUpToTheSpace) {
  const StudyResult result = Result(TinyStudy());
  const SearchSummary& search = result.search;
  EXPECT_TRUE(search.complete);
  EXPECT_EQ(search.stop_cause, StopCause::kFinished);
  EXPECT_EQ(search.optimality_gap, 0);
  std::int64_t pruned = 0;
  std::vector<std::string> names;
  for (const auto& [name, count] : search.pruned_count_by_rule) {
    names.push_back(name);
    EXPECT_GE(count, 0) << name;
    pruned += count;
  }
  EXPECT_EQ(names, PruneRuleNames());
  EXPECT_GT(search.evaluated_count, 0);
  EXPECT_LT(pruned, search.space_count);
  EXPECT_GE(pruned + search.evaluated_count, search.space_count);
}

TEST(RunStudyTest, SameRequestSameAnswer) {
  const StudyResult first = Result(LargerStudy());
  const StudyResult second = Result(LargerStudy());
  ExpectSamePlans(first, second);
  EXPECT_EQ(first.baseline->plan, second.baseline->plan);
  EXPECT_EQ(first.baseline->estimate, second.baseline->estimate);
  EXPECT_EQ(first.search.pruned_count_by_rule, second.search.pruned_count_by_rule);
  EXPECT_EQ(first.search.evaluated_count, second.search.evaluated_count);
  EXPECT_EQ(first.applied_defaults, second.applied_defaults);
  EXPECT_EQ(first.warnings, second.warnings);
}

TEST(RunStudyTest, FiguresAreThoseOfEvaluatePlan) {
  const StudyRequest request = LargerStudy();
  const StudyResult result = Result(request);
  std::vector<RankedPlan> ranked = result.plans;
  ASSERT_TRUE(result.baseline.has_value());
  ranked.push_back(*result.baseline);
  for (const RankedPlan& plan : ranked) {
    auto evaluated = EvaluatePlan({request.question, StatedPlan(plan.plan)}, Known(), {});
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    // An answer to `evaluate` also has what a study says once for all plans.
    evaluated->applied_defaults = plan.estimate.applied_defaults;
    std::erase_if(evaluated->warnings, [&](const std::string& warning) {
      return std::find(result.warnings.begin(), result.warnings.end(), warning) !=
             result.warnings.end();
    });
    EXPECT_EQ(evaluated->warnings, plan.estimate.warnings);
    EXPECT_EQ(*evaluated, plan.estimate) << MakePlanKey(plan.plan).text;
  }
}

// Rules prune what cannot win; with memory to spare the answer is the same without any of them.
TEST(RunStudyTest, SwitchingRulesOffChangesNoWinner) {
  const StudyResult with_rules = Result(TinyStudy());
  for (const std::vector<std::string>& off : {std::vector<std::string>{"topology"},
                                              {"memory"},
                                              {"dominance"},
                                              {"memory", "dominance"},
                                              {"divisibility"}}) {
    StudyRequest request = TinyStudy();
    request.disabled_rules = off;
    const StudyResult without = Result(request);
    EXPECT_EQ(without.plans.front().plan, with_rules.plans.front().plan) << off.front();
    EXPECT_EQ(without.plans.front().estimate, with_rules.plans.front().estimate) << off.front();
    for (const auto& [name, count] : without.search.pruned_count_by_rule) {
      if (std::find(off.begin(), off.end(), name) != off.end()) {
        EXPECT_EQ(count, 0) << name;
      }
    }
  }
}

TEST(RunStudyTest, StatedBaselineIsEvaluatedBesideTheAnswer) {
  StudyRequest request = TinyStudy();
  request.baseline = PlanRequest{.tensor_parallel = 2, .micro_batch_size = 2};
  const StudyResult result = Result(request);
  ASSERT_TRUE(result.baseline.has_value());
  EXPECT_EQ(result.baseline->plan.tensor_parallel, 2);
  EXPECT_EQ(result.baseline->plan.data_parallel, 2);
  EXPECT_THAT(result.applied_defaults,
              Contains(testing::Field(&AppliedDefault::field, "baseline.data_parallel")));
  request.baseline->tensor_parallel = 3;
  const auto answer = RunStudy(request, Known(), {});
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status()));
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("baseline."));
}

TEST(RunStudyTest, TheWinnerAsBaselineIsKept) {
  StudyRequest request = TinyStudy();
  request.baseline = StatedPlan(Result(request).plans.front().plan);
  const StudyResult kept = Result(request);
  EXPECT_EQ(kept.recommendation->advice, Advice::kKeepYours);
  EXPECT_EQ(kept.plans.front().plan, kept.baseline->plan);
}

TEST(RunStudyTest, DeadlineOfZeroIsSaid) {
  StudyRequest request = LargerStudy();
  request.deadline = Seconds(0);
  const auto answer = RunStudy(request, Known(), {});
  if (!answer.ok()) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
    return;
  }
  const StudyResult& result = std::get<StudyResult>(*answer);
  EXPECT_FALSE(result.search.complete);
  EXPECT_EQ(result.search.stop_cause, StopCause::kDeadline);
  EXPECT_GT(result.search.optimality_gap, 0);
  EXPECT_THAT(result.warnings, Contains(HasSubstr("ended early")));
}

TEST(RunStudyTest, CancelledBeforeItStarts) {
  std::stop_source stop;
  stop.request_stop();
  const auto answer = RunStudy(LargerStudy(), Known(), {.cancel = stop.get_token()});
  if (!answer.ok()) {
    EXPECT_TRUE(absl::IsCancelled(answer.status())) << answer.status();
    return;
  }
  const StudyResult& result = std::get<StudyResult>(*answer);
  EXPECT_FALSE(result.search.complete);
  EXPECT_EQ(result.search.stop_cause, StopCause::kCancelled);
}

// Another strategy answers with what it found, the same each time, and says that nothing is proven.
TEST(RunStudyTest, AStrategyThatIsAskedProvesNothing) {
  StudyRequest request = LargerStudy();
  request.strategy = "evolutionary";
  request.evaluation_limit = 300;
  const StudyResult result = Result(request);
  EXPECT_FALSE(result.search.complete);
  EXPECT_EQ(result.search.stop_cause, StopCause::kEvaluationLimit);
  EXPECT_EQ(result.search.evaluated_count, 300);
  EXPECT_GT(result.search.optimality_gap, 0);
  EXPECT_THAT(
      result.warnings,
      Contains(HasSubstr("evolutionary does not prove its answer: the plans are the best of "
                         "300")));
  EXPECT_GE(result.model_optimum->estimate.step_time,
            Result(LargerStudy()).model_optimum->estimate.step_time);
  ExpectSamePlans(result, Result(request));
}

TEST(RunStudyTest, AStrategyThatFindsNothingSaysSo) {
  StudyRequest request = TinyStudy();
  request.question.cluster.pools.front().memory_capacity = GiB(0.1);
  request.strategy = "random";
  request.evaluation_limit = 5;
  auto answer = RunStudy(request, Known(), {});
  EXPECT_EQ(Reason(answer.status()), "EVALUATION_LIMIT") << answer.status();
  EXPECT_THAT(std::string(answer.status().message()),
              HasSubstr("evaluation limit reached; none of the first 5 of 5380 plans fits"));
  // All plans are tried, so the answer equals the exhaustive search's.
  request.evaluation_limit = 1'000'000;
  answer = RunStudy(request, Known(), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(std::get<Infeasible>(*answer).nearest.has_value());
}

TEST(RunStudyTest, SeveralPoolsHaveNoParetoFront) {
  StudyRequest request = TinyStudy();
  request.pareto = true;
  request.question.cluster.pools.push_back(Nodes(1, 4));
  request.question.cluster.pools.back().name = "b";
  const auto answer = RunStudy(request, Known(), {});
  EXPECT_TRUE(absl::IsUnimplemented(answer.status()));
  EXPECT_EQ(Reason(answer.status()), "MIXED_CLUSTER_SEARCH");
}

TEST(RunStudyTest, AllMistakesOfAQuestionAtOnce) {
  StudyRequest request = TinyStudy();
  request.question.model.layer_count = 0;
  request.question.workload.sequence_length.reset();
  request.question.cluster.pools.front().chip = "abacus";
  const auto answer = RunStudy(request, Known(), {});
  EXPECT_EQ(FieldViolations(answer.status()).size(), 3U) << answer.status();
}

// The answer's figures are those that `evaluate` gives with the same history, and the best is best.
TEST(RunStudyTest, HistoryCalibratesTheFigures) {
  const StudyResult plain = Result(TinyStudy());
  const RankedPlan& best = plain.plans.front();
  StudyRequest request = TinyStudy();
  request.history = {{.question = request.question,
                      .plan = StatedPlan(best.plan),
                      .outcome = Outcome::kOk,
                      .step_time = best.estimate.step_time * 1.2}};
  const StudyResult calibrated = Result(request);
  Seconds before(0);
  for (const RankedPlan& ranked : calibrated.plans) {
    const auto estimate =
        EvaluatePlan({request.question, StatedPlan(ranked.plan)}, Known(), request.history);
    ASSERT_TRUE(estimate.ok()) << estimate.status();
    EXPECT_EQ(estimate->step_time, ranked.estimate.step_time);
    EXPECT_EQ(estimate->step_time_low, ranked.estimate.step_time_low);
    EXPECT_LE(before, ranked.estimate.step_time);
    before = ranked.estimate.step_time;
  }
  const auto slowed =
      EvaluatePlan({request.question, StatedPlan(best.plan)}, Known(), request.history);
  EXPECT_GT(slowed->step_time, best.estimate.step_time);
  EXPECT_LT(slowed->step_time, best.estimate.step_time * 1.2);
}

TEST(RunStudyTest, HistoryOfFailuresPrunes) {
  const StudyResult plain = Result(TinyStudy());
  const RankedPlan& best = plain.plans.front();
  StudyRequest request = TinyStudy();
  request.history = {
      {.question = request.question, .plan = StatedPlan(best.plan), .outcome = Outcome::kOom}};
  const auto answer = RunStudy(request, Known(), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  if (const auto* result = std::get_if<StudyResult>(&*answer)) {
    for (const RankedPlan& ranked : result->plans) {
      EXPECT_LT(ranked.estimate.reserved_memory, best.estimate.reserved_memory);
    }
  }
}

// Each removal is explained: by the rule, its numbers and the run.
TEST(RunStudyTest, TheHistoryNamesWhatItRulesOut) {
  const StudyResult plain = Result(TinyStudy());
  const RankedPlan& best = plain.plans.front();
  const std::string key = MakePlanKey(best.plan).text;
  StudyRequest request = TinyStudy();
  const HistoryRow row = {
      .question = request.question, .plan = StatedPlan(best.plan), .outcome = Outcome::kCrash};
  request.history = {row, row};
  const StudyResult crashed = Result(request);
  EXPECT_NE(crashed.plans.front().plan, best.plan);
  EXPECT_THAT(crashed.warnings, testing::Contains("rule history: a plan was left out: " + key +
                                                  " of this job crashed"));
  const auto evaluated = [&] {
    return EvaluatePlan({request.question, StatedPlan(best.plan)}, Known(), request.history)
        .value()
        .warnings;
  };
  EXPECT_THAT(evaluated(), testing::Contains("rule history: " + key + " of this job crashed"));
  const Explanation explained = Explain(request, Known(), {}).value();
  EXPECT_EQ(explained.near_misses.front().plan.plan, best.plan);
  EXPECT_THAT(explained.near_misses.front().reason,
              testing::HasSubstr("faster, but rule history: " + key + " of this job crashed"));
  request.disabled_rules = {"history"};
  EXPECT_EQ(Result(request).plans.front().plan, best.plan);

  request.disabled_rules.clear();
  request.history.front().outcome = Outcome::kOom;
  const auto size = fmt::format("{:.2f} GiB", best.estimate.reserved_memory / GiB(1));
  EXPECT_THAT(evaluated(),
              testing::Contains(testing::AllOf(testing::HasSubstr("rule history: "),
                                               testing::HasSubstr(key + " of this job"))));
  EXPECT_THAT(Result(request).warnings,
              testing::Contains(testing::AllOf(
                  testing::HasSubstr("rule history: plans that the model estimates at " + size),
                  testing::HasSubstr(key + " of this job ran out of memory at " + size))));
}

// A run that was faster than the expectation of any plan is named.
TEST(RunStudyTest, AFasterRunIsNamed) {
  const StudyResult plain = Result(TinyStudy());
  const RankedPlan& slow = plain.plans.back();
  StudyRequest request = TinyStudy();
  request.history = {{.question = request.question,
                      .plan = StatedPlan(slow.plan),
                      .outcome = Outcome::kOk,
                      .step_time = plain.plans.front().estimate.step_time * 0.5}};
  EXPECT_THAT(
      Result(request).warnings,
      testing::Contains(testing::HasSubstr(MakePlanKey(slow.plan).text + " ran this job in")));
  request.history.front().step_time = slow.estimate.step_time;
  EXPECT_THAT(Result(request).warnings,
              testing::Not(testing::Contains(testing::HasSubstr("ran this job in"))));
}

TEST(EvaluatePlanTest, StagesOverTwoPools) {
  Question question = TinyQuestion();
  question.model.tied_embeddings = false;  // or the stages need equal tensor parallelism
  question.cluster.pools.push_back(
      {.name = "b", .chip = "nvidia-h100-sxm5-80gb", .node_count = 1, .devices_per_node = 4});
  PlanRequest plan = {.stages = {{.pool = "a",
                                  .node_count = 1,
                                  .tensor_parallel = 2,
                                  .data_parallel = 2,
                                  .layer_count = 1,
                                  .micro_batch_size = 1},
                                 {.pool = "b",
                                  .node_count = 1,
                                  .tensor_parallel = 1,
                                  .data_parallel = 4,
                                  .layer_count = 3,
                                  .micro_batch_size = 1}}};
  const auto uneven = EvaluatePlan({question, plan}, Known(), {});
  EXPECT_TRUE(absl::IsInvalidArgument(uneven.status())) << "2 x 1 sequences against 4 x 1";
  plan.stages[0].micro_batch_size = 2;
  const auto estimate = EvaluatePlan({question, plan}, Known(), {});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_GT(estimate->step_time, Seconds(0));
  EXPECT_TRUE(estimate->fits);
  EXPECT_EQ(estimate->stage_memory.size(), 2U);
  // The lines of the breakdown add up to the step.
  Seconds sum(0);
  for (const Seconds line : estimate->breakdown) sum += line;
  EXPECT_NEAR(sum / estimate->step_time, 1, 1e-9);
}

TEST(EvaluatePlanTest, SeveralPoolsNeedStages) {
  Question question = TinyQuestion();
  question.cluster.pools.push_back(Nodes(1, 4));
  question.cluster.pools.back().name = "b";
  const auto estimate = EvaluatePlan({question, {.tensor_parallel = 2}}, Known(), {});
  ASSERT_TRUE(absl::IsInvalidArgument(estimate.status()));
  EXPECT_THAT(FieldViolations(estimate.status()),
              Contains(testing::Field(&FieldViolation::field, "plan.stages")));
}

TEST(EvaluatePlanTest, APlanThatDoesNotFitStillHasEveryFigure) {
  Question question = TinyQuestion();
  question.cluster.pools.front().memory_capacity = GiB(1);
  const auto estimate = EvaluatePlan({question, {}}, Known(), {});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_FALSE(estimate->fits);
  EXPECT_LT(estimate->fit_probability, 0.5);
  EXPECT_GT(estimate->step_time, Seconds(0));
  EXPECT_THAT(estimate->applied_defaults,
              Contains(testing::Field(&AppliedDefault::field, "workload.precision")));
  EXPECT_THAT(estimate->applied_defaults,
              Contains(testing::Field(&AppliedDefault::field, "plan.data_parallel")));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
