#include "server/tuner/learning/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/search/infeasible.h"
#include "tests/tuner/prepared.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

ParallelPlan DataParallel() { return {.data_parallel = 4}; }

Estimate Predicted(const Question& question, const ParallelPlan& plan) {
  const Problem problem = Resolved(question);
  AnalyticModel model(ToEstimatorProblem(problem));
  return model.Full(plan);
}

// Returns a run of the plan that took `time` and `memory` times the modelled figures.
HistoryRow Ran(double time, double memory, const ParallelPlan& plan = DataParallel()) {
  const Estimate predicted = Predicted(TinyQuestion(), plan);
  return {.question = TinyQuestion(),
          .plan = StatedPlan(plan),
          .outcome = Outcome::kOk,
          .step_time = predicted.step_time * time,
          .peak_memory = Scale(predicted.peak_memory, memory)};
}

// Returns a run of a model with more layers that took `time` times the modelled time.
HistoryRow RanElsewhere(double time) {
  HistoryRow row = Ran(1, 1);
  row.question.model.layer_count = 8;
  row.step_time = Predicted(row.question, DataParallel()).step_time * time;
  row.peak_memory.reset();
  return row;
}

HistoryRow RanOut(const ParallelPlan& plan) {
  return {.question = TinyQuestion(), .plan = StatedPlan(plan), .outcome = Outcome::kOom};
}

Calibration Calibrated(const std::vector<HistoryRow>& history) {
  const Problem problem = Resolved(TinyQuestion());
  return Calibrate(RunsFor(problem, history), problem);
}

// Returns the calibrated over the predicted step time of the plan that ran.
double TimeRatioOf(const Calibration& calibration) {
  const Problem problem = Resolved(TinyQuestion());
  AnalyticModel model(ToEstimatorProblem(problem), calibration);
  return model.Full(DataParallel()).step_time / Predicted(TinyQuestion(), DataParallel()).step_time;
}

TEST(CalibrateTest, WithoutHistoryNothingChanges) {
  const Calibration calibration = Calibrated({});
  EXPECT_EQ(calibration.time_ratio, 1);
  EXPECT_EQ(calibration.memory_ratio, 1);
  EXPECT_EQ(LeastTimeRatio(calibration), 1);
  EXPECT_TRUE(calibration.time.points.empty());
  EXPECT_TRUE(calibration.warnings.empty());
  EXPECT_FALSE(calibration.out_of_memory.has_value());
  EXPECT_TRUE(calibration.failed.empty());
}

// The job's own rows need no warning, and more of them move the factors further.
TEST(CalibrateTest, FewRowsAreDrawnTowardsOne) {
  double time = 1;
  double memory = 1;
  for (const int rows : {1, 3, 8}) {
    const std::vector<HistoryRow> history(static_cast<std::size_t>(rows), Ran(1.1, 0.8));
    const Calibration calibration = Calibrated(history);
    const double now = TimeRatioOf(calibration);
    EXPECT_GT(now, time) << rows;
    EXPECT_LT(now, 1.1) << rows;
    EXPECT_LT(calibration.memory_ratio, memory) << rows;
    EXPECT_GT(calibration.memory_ratio, 0.8) << rows;
    EXPECT_EQ(calibration.time.points.size(), history.size());
    EXPECT_TRUE(calibration.warnings.empty());
    time = now;
    memory = calibration.memory_ratio;
  }
}

TEST(CalibrateTest, OneOutlierDoesNotDecide) {
  const std::vector<HistoryRow> calm = {Ran(1.05, 1), Ran(1.06, 1), Ran(1.04, 1)};
  std::vector<HistoryRow> wild = calm;
  wild.push_back(Ran(20, 1));
  EXPECT_NEAR(TimeRatioOf(Calibrated(wild)), TimeRatioOf(Calibrated(calm)), 0.03);
}

// A plan close to the one that ran takes more of its factor than a distant one, and the figures of
// a plan are the same bit for bit however they are requested.
TEST(CalibrateTest, PlansHaveFactorsOfTheirOwn) {
  const Problem problem = Resolved(TinyQuestion());
  const ParallelPlan far = {.tensor_parallel = 4};
  const std::vector<HistoryRow> history = {Ran(1.2, 1), Ran(1.2, 1), Ran(1, 1, far),
                                           Ran(1, 1, far)};
  AnalyticModel plain(ToEstimatorProblem(problem));
  AnalyticModel calibrated(ToEstimatorProblem(problem), Calibrated(history));
  const auto factor = [&](const ParallelPlan& plan) {
    const Estimate estimate = calibrated.Full(plan);
    EXPECT_EQ(calibrated.Quick(plan).step_time, estimate.step_time);
    EXPECT_EQ(calibrated.TimelineOf(plan).step, estimate.step_time);
    EXPECT_EQ(EvaluatePlan({TinyQuestion(), StatedPlan(plan)}, Known(), history)->step_time,
              estimate.step_time);
    Seconds sum(0);
    for (const Seconds& part : estimate.breakdown) sum += part;
    EXPECT_NEAR(sum / estimate.step_time, 1, 1e-9);
    return estimate.step_time / plain.Full(plan).step_time;
  };
  EXPECT_GT(factor(DataParallel()), factor(far) + 0.05);
}

TEST(CalibrateTest, AnEvaluatedPlanNamesTheRunsBehindIt) {
  QuestionResolver resolver(Known());
  const ResolvedCase asked =
      ResolveCase({TinyQuestion(), StatedPlan(DataParallel())}, resolver).value();
  const std::vector<HistoryRow> none;
  Calibrator plain(none, Known());
  EXPECT_EQ(EvaluatePlan(asked, plain)->calibration, std::nullopt);
  const std::vector<HistoryRow> runs = ResolvedRows({Ran(1.05, 1), RanElsewhere(1.05)});
  Calibrator calibrator(runs, Known());
  const auto evaluated = EvaluatePlan(asked, calibrator);
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  ASSERT_TRUE(evaluated->calibration.has_value());
  EXPECT_EQ(evaluated->calibration->run_count, 2);
  EXPECT_EQ(evaluated->calibration,
            Prepared({.question = TinyQuestion(), .history = runs}).learnt.report);
}

TEST(CalibrateTest, MemoryHasOneFactorForAllPlans) {
  const Problem problem = Resolved(TinyQuestion());
  AnalyticModel plain(ToEstimatorProblem(problem));
  AnalyticModel calibrated(ToEstimatorProblem(problem), Calibrated({Ran(1, 1.2), Ran(1, 1.2)}));
  ParallelPlan recomputed = DataParallel();
  recomputed.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {4}};
  for (const ParallelPlan& plan :
       {DataParallel(), ParallelPlan{.tensor_parallel = 4}, recomputed}) {
    EXPECT_NEAR(calibrated.Full(plan).peak_memory / plain.Full(plan).peak_memory,
                Calibrated({Ran(1, 1.2), Ran(1, 1.2)}).memory_ratio, 1e-6);
  }
}

TEST(CalibrateTest, OrderOfRowsDoesNotMatter) {
  HistoryRow elsewhere = RanElsewhere(1.2);  // as large as its twin
  elsewhere.outcome = Outcome::kOom;
  elsewhere.plan.micro_batch_size = 4;
  HistoryRow twin = elsewhere;
  twin.question.model.name = "another";
  HistoryRow crashed = RanOut({.pipeline_parallel = 2, .data_parallel = 2});
  crashed.outcome = Outcome::kCrash;
  std::vector<HistoryRow> history = {
      Ran(1.1, 0.9),    RanElsewhere(1.2),
      Ran(1.3, 1.1),    Ran(0.9, 1, {.tensor_parallel = 4}),
      elsewhere,        twin,
      crashed,          RanOut({.pipeline_parallel = 2, .data_parallel = 2}),
      RanElsewhere(0.9)};
  const Calibration before = Calibrated(history);
  std::reverse(history.begin(), history.end());
  const Calibration after = Calibrated(history);
  EXPECT_EQ(after.time.weights, before.time.weights);
  EXPECT_EQ(after.time.precision, before.time.precision);
  EXPECT_EQ(after.memory_ratio, before.memory_ratio);
  EXPECT_EQ(after.warnings, before.warnings);
  ASSERT_TRUE(before.out_of_memory.has_value());
  EXPECT_EQ(after.out_of_memory, before.out_of_memory);
  EXPECT_EQ(before.out_of_memory->job, "another on 4 devices");
  EXPECT_EQ(before.failed.size(), 1U);
  EXPECT_EQ(after.failed, before.failed);
}

TEST(CalibrateTest, RowsOfOtherChipsOrFrameworksAreLeftOut) {
  HistoryRow other_chip = Ran(3, 1);
  other_chip.question.cluster.pools.front().chip = "nvidia-h100-sxm5-80gb";
  HistoryRow other_framework = Ran(3, 1);
  other_framework.question.workload.framework_name = "megatron-core";
  const Calibration calibration = Calibrated({other_chip, other_framework});
  EXPECT_EQ(calibration.time_ratio, 1);
  EXPECT_TRUE(calibration.time.points.empty());
}

// Rows of another model count for less, and the answer says how alike they are.
TEST(CalibrateTest, RowsOfOtherJobsCountLessAndAreNamed) {
  const Calibration own = Calibrated({Ran(1.1, 1), Ran(1.1, 1)});
  const std::vector<HistoryRow> others = {RanElsewhere(1.1), RanElsewhere(1.1)};
  const Calibration other = Calibrated(others);
  EXPECT_LT(TimeRatioOf(other), TimeRatioOf(own));
  EXPECT_GT(TimeRatioOf(other), 1);
  const auto says = ElementsAre(HasSubstr(
      "step times: learnt from 0 runs of this job and 2 of other models, workloads or clusters on "
      "nvidia-a100-sxm4-80gb under generic, which count as 0.9 alike (0 of them on other nodes"));
  EXPECT_THAT(other.warnings, says);
  const auto estimate = EvaluatePlan({TinyQuestion(), StatedPlan(DataParallel())}, Known(), others);
  EXPECT_THAT(estimate->warnings, testing::IsSupersetOf(other.warnings));
}

// Another number of nodes makes another job; other nodes make a less similar one.
TEST(CalibrateTest, RowsOfOtherNodesCountLess) {
  const auto learnt_on = [](int node_count, int devices_per_node) {
    HistoryRow row = Ran(1, 1);
    NodePoolRequest& pool = row.question.cluster.pools.front();
    pool.node_count = node_count;
    pool.devices_per_node = devices_per_node;
    const ParallelPlan plan = {.data_parallel = node_count * devices_per_node};
    row.plan = StatedPlan(plan);
    row.step_time = Predicted(row.question, plan).step_time * 1.1;
    row.peak_memory.reset();
    return Calibrated({row, row});
  };
  const Calibration own = learnt_on(1, 4);
  const Calibration more = learnt_on(2, 4);
  const Calibration other = learnt_on(2, 2);
  EXPECT_LT(TimeRatioOf(more), TimeRatioOf(own));
  EXPECT_LT(TimeRatioOf(other), TimeRatioOf(more));
  EXPECT_GT(TimeRatioOf(other), 1);
  EXPECT_THAT(other.warnings, ElementsAre(HasSubstr("(2 of them on other nodes: 0.65;")));
}

// Names do not make another job.
TEST(CalibrateTest, NamesMakeNoOtherJob) {
  HistoryRow row = Ran(1.1, 1);
  row.question.model.name = "another name";
  row.question.cluster.name = "another name";
  EXPECT_TRUE(Calibrated({row}).warnings.empty());
  EXPECT_EQ(Calibrated({row}).time_ratio, Calibrated({Ran(1.1, 1)}).time_ratio);
}

// Ten runs of another model took the modelled time, and three own ones took twice that.
TEST(CalibrateTest, OwnRunsThatDisagreeDropTheOthers) {
  std::vector<HistoryRow> history(10, RanElsewhere(1));
  for (int i = 0; i < 3; ++i) history.push_back(Ran(2, 1));
  const Calibration both = Calibrated(history);
  EXPECT_THAT(both.warnings,
              ElementsAre(testing::AllOf(HasSubstr("step times: 10 runs of other models"),
                                         HasSubstr("were left out"))));
  EXPECT_EQ(both.time_ratio, Calibrated({Ran(2, 1), Ran(2, 1), Ran(2, 1)}).time_ratio);
}

// The question's framework facts apply to every run. A warning names the facts for runs to which
// that makes a difference.
TEST(CalibrateTest, RunsUnderOtherFrameworkFactsAreCounted) {
  HistoryRow stated = Ran(1.1, 1);
  stated.question.workload.framework_facts = {{.name = "host_per_launch_seconds", .value = "4e-5"},
                                              {.name = "fixed_per_step_seconds", .value = "0.01"}};
  EXPECT_TRUE(Calibrated({Ran(1.1, 1)}).warnings.empty());
  EXPECT_THAT(Calibrated({Ran(1.1, 1), stated, stated}).warnings,
              ElementsAre("2 runs of the history had other framework facts "
                          "(fixed_per_step_seconds, host_per_launch_seconds): they are compared "
                          "with the model under this question's facts and count like the others"));
  // Which of the two states them makes no difference, nor does their order; another value does.
  Question asked = stated.question;
  std::ranges::reverse(asked.workload.framework_facts);
  asked.workload.framework_facts.front().value = "0.02";
  const Calibration calibration =
      Calibrate(RunsFor(Resolved(asked), {Ran(1.1, 1), stated}), Resolved(asked));
  EXPECT_THAT(calibration.warnings,
              testing::Contains(HasSubstr("2 runs of the history had other framework facts "
                                          "(fixed_per_step_seconds, host_per_launch_seconds)")));
  asked.workload.framework_facts.front().value = "0.01";
  const Calibration same = Calibrate(RunsFor(Resolved(asked), {stated}), Resolved(asked));
  EXPECT_THAT(same.warnings, testing::Not(testing::Contains(HasSubstr("framework facts"))));
}

// A run under facts of its own, which a question without them would not allow, is compared with its
// own facts and does not make the answer fail.
TEST(CalibrateTest, ARunThatTheQuestionWouldNotAllowIsLearntFrom) {
  Question own = TinyQuestion();
  own.workload.framework_name = "megatron-core";
  Question asked = own;
  own.workload.framework_facts = {{.name = "activation_offload_needs_one_stage", .value = "false"}};
  const ParallelPlan plan = {
      .pipeline_parallel = 2, .data_parallel = 2, .activation_offload_ratio = 0.5};
  const HistoryRow row = {
      .question = own, .plan = StatedPlan(plan), .step_time = Predicted(own, plan).step_time * 1.1};
  ASSERT_FALSE(ResolvePlan(row.plan, Resolved(asked), "plan").ok());
  const Calibration calibration =
      Calibrate(RunsFor(Resolved(asked), {row, row, row}), Resolved(asked));
  EXPECT_GT(calibration.time_ratio, 1);
  EXPECT_THAT(calibration.warnings,
              testing::Contains(HasSubstr("3 runs of the history are of plans that this")));
}

// A crash says nothing about memory; a second one rules out its own plan until it runs. A timeout
// or a cancelled run rules out nothing.
TEST(CalibrateTest, FailedPlansAreKeptUntilTheyRun) {
  HistoryRow row = RanOut(DataParallel());
  for (const Outcome outcome : {Outcome::kCrash, Outcome::kHang}) {
    row.outcome = outcome;
    EXPECT_FALSE(Calibrated({row}).out_of_memory.has_value());
    ASSERT_EQ(Calibrated({row, row}).failed.size(), 1U);
    EXPECT_EQ(Calibrated({row, row}).failed.front().outcome, outcome);
    EXPECT_TRUE(Calibrated({row}).failed.empty());
    EXPECT_TRUE(Calibrated({row, row, Ran(1, 1)}).failed.empty());
    EXPECT_EQ(Calibrated({row, row, Ran(1, 1, {.tensor_parallel = 4})}).failed.size(), 1U);
  }
  for (const Outcome outcome : {Outcome::kTimeout, Outcome::kCancelled}) {
    row.outcome = outcome;
    EXPECT_TRUE(Calibrated({row, row}).failed.empty());
  }
  HistoryRow elsewhere = RanElsewhere(1);
  elsewhere.outcome = Outcome::kCrash;
  EXPECT_TRUE(Calibrated({elsewhere, elsewhere}).failed.empty());
}

// A plan that ran out of memory marks its modelled size; a larger one that ran removes the mark.
TEST(CalibrateTest, OutOfMemoryMarksTheSmallestFailure) {
  ParallelPlan small = DataParallel();
  small.zero_stage = 1;
  ParallelPlan large = DataParallel();
  large.micro_batch_size = 4;
  const Bytes small_size = Predicted(TinyQuestion(), small).reserved_memory;
  const Bytes large_size = Predicted(TinyQuestion(), large).reserved_memory;
  ASSERT_LT(small_size, large_size);
  const auto mark = [](const std::vector<HistoryRow>& history) {
    const auto run = Calibrated(history).out_of_memory;
    return run.has_value() ? std::optional(run->reserved_memory) : std::nullopt;
  };
  EXPECT_EQ(mark({RanOut(large)}), large_size);
  EXPECT_EQ(mark({RanOut(large), RanOut(small)}), small_size);
  EXPECT_EQ(mark({RanOut(small), Ran(1, 1, large)}), std::nullopt);
  // The failure of the small one needs no other evidence.
  EXPECT_EQ(Calibrated({RanOut(small), Ran(1, 1, large)}).failed.size(), 1U);
}

// A plan that ran out of memory on a smaller device says nothing about this one. On a larger one it
// does, unless a larger plan ran here.
TEST(CalibrateTest, OutOfMemoryHoldsForDevicesWithNoMoreMemory) {
  const auto on = [](HistoryRow row, double gib) {
    row.question.cluster.pools.front().memory_capacity = GiB(gib);
    return row;
  };
  ParallelPlan large = DataParallel();
  large.micro_batch_size = 4;
  EXPECT_FALSE(Calibrated({on(RanOut(DataParallel()), 40)}).out_of_memory.has_value());
  EXPECT_TRUE(Calibrated({on(RanOut(DataParallel()), 96)}).out_of_memory.has_value());
  EXPECT_TRUE(
      Calibrated({RanOut(DataParallel()), on(Ran(1, 1, large), 96)}).out_of_memory.has_value());
  EXPECT_FALSE(
      Calibrated({RanOut(DataParallel()), on(Ran(1, 1, large), 40)}).out_of_memory.has_value());
  // And the mark goes with the device: a cluster with more memory is not marked.
  const Calibration calibration = Calibrated({RanOut(DataParallel())});
  Problem roomy = Resolved(TinyQuestion());
  EXPECT_FALSE(AnalyticModel(ToEstimatorProblem(roomy), calibration).Quick(DataParallel()).fits);
  roomy.cluster.pools.front().memory_capacity = GiB(96);
  EXPECT_TRUE(AnalyticModel(ToEstimatorProblem(roomy), calibration).Quick(DataParallel()).fits);
}

TEST(CalibrateTest, OutOfMemoryPrunesPlansOfThatSizeAndLargerOnly) {
  ParallelPlan failed = DataParallel();
  failed.micro_batch_size = 2;
  const Problem problem = Resolved(TinyQuestion());
  const Bytes size = Predicted(TinyQuestion(), failed).reserved_memory;
  AnalyticModel plain(ToEstimatorProblem(problem));
  AnalyticModel calibrated(ToEstimatorProblem(problem), Calibrated({RanOut(failed)}));
  const SearchSpace space = SpaceOf(problem);
  std::int64_t pruned = 0;
  std::int64_t kept = 0;
  for (PlanWalk walk(space); walk.Next();) {
    if (!walk.is_plan() || walk.plan().pipeline_parallel > 1) continue;
    const QuickEstimate before = plain.Quick(walk.plan());
    const QuickEstimate after = calibrated.Quick(walk.plan());
    ASSERT_EQ(after.fits, before.fits && before.reserved_memory < size)
        << MakePlanKey(walk.plan()).text;
    ++(after.fits ? kept : pruned);
  }
  EXPECT_GT(pruned, 0);
  EXPECT_GT(kept, 0);
}

// Returns the question with devices that the plan fills to `use`, by the model.
Question FilledTo(double use, const ParallelPlan& plan) {
  Question question = TinyQuestion();
  question.cluster.pools.front().memory_capacity =
      Scale(Predicted(question, plan).reserved_memory, 1 / use);
  return question;
}

Calibration CalibratedFor(const Question& question, std::vector<HistoryRow> history) {
  for (HistoryRow& row : history) row.question = question;
  const Problem problem = Resolved(question);
  return Calibrate(RunsFor(problem, history), problem);
}

HistoryRow RanWithoutMemory(const ParallelPlan& plan) {
  HistoryRow row = Ran(1, 1, plan);
  row.peak_memory.reset();
  return row;
}

// A plan that was to fill 0.9 of the memory did not fit: this job needs at least 1 / 0.9 of what
// the model says, and the next plan leaves room for that.
TEST(CalibrateTest, OutOfMemoryMovesTheMemoryModel) {
  const ParallelPlan failed = DataParallel();
  const Question question = FilledTo(0.9, failed);
  const Calibration calibration = CalibratedFor(question, {RanOut(failed)});
  ASSERT_TRUE(calibration.bounded_memory.has_value());
  EXPECT_GT(calibration.memory_ratio, 1 / 0.9);
  EXPECT_LT(calibration.memory_ratio, 1.4);
  EXPECT_THAT(calibration.warnings, testing::Contains(HasSubstr("ran out of memory, so this job")));
  const Problem problem = Resolved(question);
  const Estimate after = AnalyticModel(ToEstimatorProblem(problem), calibration).Full(failed);
  EXPECT_GT(after.reserved_memory, after.memory_capacity);
  EXPECT_LT(after.fit_probability, 0.5);
  // A much smaller plan fails too: the job needs even more.
  ParallelPlan smaller = failed;
  smaller.zero_stage = 1;
  ASSERT_LT(Predicted(question, smaller).reserved_memory,
            Scale(Predicted(question, failed).reserved_memory, 0.8));
  const Calibration both = CalibratedFor(question, {RanOut(failed), RanOut(smaller)});
  EXPECT_GT(both.memory_ratio, 1.2 * calibration.memory_ratio);
}

TEST(CalibrateTest, WhatRanHoldsTheMemoryModel) {
  const ParallelPlan plan = DataParallel();
  const Question question = FilledTo(0.9, plan);
  // A plan of the same size ran: the failure had another cause.
  const Calibration both = CalibratedFor(question, {RanOut(plan), RanWithoutMemory(plan)});
  EXPECT_FALSE(both.bounded_memory.has_value());
  EXPECT_EQ(both.memory_ratio, 1);
}

// A failure that the model expects teaches nothing new. One that no error of the model explains is
// not its fault.
TEST(CalibrateTest, OnlySurprisesWithinReasonMoveTheMemoryModel) {
  const ParallelPlan plan = DataParallel();
  EXPECT_EQ(CalibratedFor(FilledTo(1.2, plan), {RanOut(plan)}).memory_ratio, 1);
  const Calibration far = CalibratedFor(FilledTo(0.3, plan), {RanOut(plan)});
  EXPECT_EQ(far.memory_ratio, 1);
  EXPECT_TRUE(far.out_of_memory.has_value());
  EXPECT_THAT(far.warnings, testing::Contains(AllOf(HasSubstr("the model is not moved"),
                                                    HasSubstr("another process"))));
  // Two such failures are hardly both another's fault.
  const Calibration twice = CalibratedFor(FilledTo(0.3, plan), {RanOut(plan), RanOut(plan)});
  EXPECT_GT(twice.memory_ratio, 1 / 0.3);
}

// Returns the plan that takes most of the memory among those that fit with a probability of 0.95.
std::optional<ParallelPlan> LargestSafePlan(const Problem& problem, const Calibration& learnt) {
  AnalyticModel model(ToEstimatorProblem(problem), learnt);
  const SearchSpace space = SpaceOf(problem);
  std::optional<ParallelPlan> largest;
  Bytes most = {};
  for (PlanWalk walk(space); walk.Next();) {
    if (!walk.is_plan()) continue;
    const Estimate estimate = model.Full(walk.plan());
    if (estimate.fit_probability < 0.95 || estimate.reserved_memory <= most) continue;
    most = estimate.reserved_memory;
    largest = walk.plan();
  }
  return largest;
}

// A job that needs far more than the model says is not tried again and again, each time with a plan
// that takes only a little less.
TEST(CalibrateTest, LargeErrorsTakeFewFailures) {
  const Question question = FilledTo(0.9, DataParallel());
  const Problem problem = Resolved(question);
  const Bytes capacity = problem.cluster.pools.front().memory_capacity;
  AnalyticModel untaught(ToEstimatorProblem(problem));
  for (const double needed : {1.2, 1.5}) {  // times what the model says
    std::vector<HistoryRow> rows;
    while (true) {
      const auto plan = LargestSafePlan(problem, CalibratedFor(question, rows));
      ASSERT_TRUE(plan.has_value()) << needed;
      if (Scale(untaught.Full(*plan).reserved_memory, needed) <= capacity) break;
      rows.push_back(RanOut(*plan));
      ASSERT_LE(rows.size(), 2U) << needed;
    }
    EXPECT_EQ(rows.size(), 1U) << needed;
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
