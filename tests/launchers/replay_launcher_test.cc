#include "server/launchers/replay_launcher.h"

#include <gtest/gtest.h>

#include <stop_token>

#include "server/launchers/launchers.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace {

PlanRequest Plan(int tensor, int micro_batch) {
  return {.tensor_parallel = tensor, .micro_batch_size = micro_batch};
}

MeasuredPlan Row(const PlanRequest& plan, Outcome outcome, double seconds = 0) {
  MeasuredPlan row = {.plan = plan, .outcome = outcome};
  if (outcome == Outcome::kOk) row.step_time = Seconds(seconds);
  return row;
}

// What the only plan of the rows does.
TrialOutcome OutcomeOfRows(const std::vector<MeasuredPlan>& rows) {
  const auto launcher = ReplayLauncher::Make(rows, Resolved(TinyQuestion())).value();
  EXPECT_EQ(launcher->Plans().size(), 1u);
  EXPECT_TRUE(launcher->Submit({.id = 7, .plan = launcher->Plans().front()}).ok());
  const auto finished = launcher->Wait(Seconds(0)).value();
  EXPECT_EQ(finished->id, 7);
  EXPECT_EQ(launcher->Wait(Seconds(0)).value(), std::nullopt);  // told once
  return finished->outcome;
}

struct Case {
  const char* name;
  std::vector<MeasuredPlan> rows;
  TrialOutcome outcome;
};

const PlanRequest kPlan = Plan(2, 1);

const std::vector<Case> kCases = {
    {"one", {Row(kPlan, Outcome::kOk, 3)}, Ran{.step_time = Seconds(3)}},
    {"median_of_three",
     {Row(kPlan, Outcome::kOk, 9), Row(kPlan, Outcome::kOk, 3), Row(kPlan, Outcome::kOk, 4)},
     Ran{.step_time = Seconds(4)}},
    {"median_of_two",  // (3 + 4) / 2
     {Row(kPlan, Outcome::kOk, 4), Row(kPlan, Outcome::kOk, 3)},
     Ran{.step_time = Seconds(3.5)}},
    {"half_failed",
     {Row(kPlan, Outcome::kOk, 4), Row(kPlan, Outcome::kOom)},
     Ran{.step_time = Seconds(4)}},
    {"most_failed",
     {Row(kPlan, Outcome::kCrash), Row(kPlan, Outcome::kOk, 4), Row(kPlan, Outcome::kCrash)},
     Crashed()},
    {"one_of_the_failed_by_memory",
     {Row(kPlan, Outcome::kCrash), Row(kPlan, Outcome::kOom), Row(kPlan, Outcome::kHang)},
     OutOfMemory()},
    // The same plan, its split of four layers stated.
    {"default_stated",
     {Row(kPlan, Outcome::kOk, 9),
      Row({.tensor_parallel = 2, .micro_batch_size = 1, .layers_per_stage = {4}}, Outcome::kOk, 3)},
     Ran{.step_time = Seconds(6)}}};

class ReplayTest : public testing::TestWithParam<Case> {};

TEST_P(ReplayTest, RowsOfAPlanAreOneOutcome) {
  EXPECT_EQ(OutcomeOfRows(GetParam().rows), GetParam().outcome);
}

INSTANTIATE_TEST_SUITE_P(All, ReplayTest, testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(ReplayLauncherTest, RefusesAPlanThatNoRowHas) {
  const auto launcher =
      ReplayLauncher::Make({Row(kPlan, Outcome::kOk, 3)}, Resolved(TinyQuestion())).value();
  EXPECT_EQ(launcher->Submit({.plan = {.tensor_parallel = 4}}).code(), absl::StatusCode::kNotFound);
}

StudyRequest Replayed(std::vector<MeasuredPlan> rows, int trials) {
  StudyRequest request = {.question = TinyQuestion()};
  request.trials = TrialRequest{.launcher = std::string(kReplayLauncher),
                                .replay = std::move(rows),
                                .budget = {.trials = trials}};
  return request;
}

StudyResult Answer(const StudyRequest& request) {
  return std::get<StudyResult>(RunStudyWithTrials(request, Known(), {}).value());
}

TEST(ReplayStudyTest, MeasuredPlansComeFirstWithTheirTimes) {
  const StudyRequest request =
      Replayed({Row(Plan(1, 1), Outcome::kOk, 0.5), Row(Plan(2, 1), Outcome::kOk, 0.25),
                Row(Plan(4, 1), Outcome::kOom), Row(Plan(1, 2), Outcome::kOk, 0.75)},
               4);
  const StudyResult result = Answer(request);
  ASSERT_EQ(result.trials.size(), 4u);
  ASSERT_EQ(result.plans.size(), 3u);  // the one out of memory is in no ranking
  const double times[] = {0.25, 0.5, 0.75};
  for (std::size_t i = 0; i < 3; ++i) {
    const Estimate& estimate = result.plans[i].estimate;
    EXPECT_NEAR(estimate.step_time.count(), times[i], 1e-9 * times[i]);
    EXPECT_EQ(estimate.provenance, Provenance::kMeasured);
    Seconds sum(0);
    for (const Seconds& line : estimate.breakdown) sum += line;
    EXPECT_NEAR(sum.count(), times[i], 1e-6 * times[i]);
  }
  EXPECT_EQ(result.trial_summary->stop, TrialStop::kAllTried);
  EXPECT_TRUE(result.search.complete);
}

TEST(ReplayStudyTest, WhatWasNotTriedIsExpectedAfterTheTrials) {
  // Two runs were half as slow again as the model thinks: so is the third plan, but for the prior's
  // share.
  std::vector<MeasuredPlan> rows;
  for (const PlanRequest& plan : {Plan(1, 1), Plan(1, 2), Plan(2, 1)}) {
    const auto expected = EvaluatePlan({.question = TinyQuestion(), .plan = plan}, Known(), {});
    rows.push_back(Row(plan, Outcome::kOk, 1.5 * expected.value().step_time.count()));
  }
  const StudyResult result = Answer(Replayed(rows, 2));
  ASSERT_EQ(result.plans.size(), 3u);
  EXPECT_EQ(result.plans[1].estimate.provenance, Provenance::kMeasured);
  const RankedPlan& open = result.plans[2];
  const auto cold =
      EvaluatePlan({.question = TinyQuestion(), .plan = StatedPlan(open.plan)}, Known(), {})
          .value();
  EXPECT_GT(open.estimate.step_time / cold.step_time, 1.2);
  EXPECT_LT(open.estimate.step_time / cold.step_time, 1.5);
  EXPECT_NE(open.estimate.provenance, Provenance::kMeasured);
}

TEST(ReplayStudyTest, WhatTheHistoryHasAsRunIsNotTriedAgain) {
  StudyRequest request =
      Replayed({Row(Plan(1, 1), Outcome::kOk, 0.5), Row(Plan(2, 1), Outcome::kOk, 0.25)}, 2);
  request.history = {{.question = TinyQuestion(), .plan = Plan(2, 1), .step_time = Seconds(0.25)}};
  const StudyResult result = Answer(request);
  ASSERT_EQ(result.trials.size(), 1u);
  EXPECT_EQ(result.trials[0].plan.tensor_parallel, 1);
  ASSERT_EQ(result.plans.size(), 2u);
  EXPECT_EQ(result.plans[0].estimate.step_time, Seconds(0.25));
  EXPECT_EQ(result.plans[0].estimate.provenance, Provenance::kMeasured);
  // Of another job it teaches only.
  std::optional<int>& length = request.history[0].question.workload.sequence_length;
  length = *length / 2;
  EXPECT_EQ(Answer(request).trials.size(), 2u);
}

TEST(ReplayStudyTest, OrderOfRowsChangesNothing) {
  std::vector<MeasuredPlan> rows = {Row(Plan(1, 1), Outcome::kOk, 0.5),
                                    Row(Plan(2, 1), Outcome::kOk, 0.25),
                                    Row(Plan(4, 1), Outcome::kCrash)};
  const StudyResult first = Answer(Replayed(rows, 2));
  std::swap(rows.front(), rows.back());
  const StudyResult second = Answer(Replayed(rows, 2));
  ASSERT_EQ(first.trials.size(), 2u);
  ASSERT_EQ(second.trials.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(first.trials[i].plan, second.trials[i].plan);
    EXPECT_EQ(first.trials[i].expected_step_time, second.trials[i].expected_step_time);
  }
  EXPECT_EQ(first.plans.front().estimate, second.plans.front().estimate);
}

TEST(ReplayStudyTest, EndsWithTheDeadlineOrWhenCancelled) {
  StudyRequest request = Replayed({Row(Plan(1, 1), Outcome::kOk, 0.5)}, 1);
  std::stop_source stop;
  stop.request_stop();
  const auto cancelled = std::get<StudyResult>(
      RunStudyWithTrials(request, Known(), {.cancel = stop.get_token()}).value());
  EXPECT_EQ(cancelled.trial_summary->stop, TrialStop::kCancelled);
  EXPECT_EQ(cancelled.search.stop_cause, StopCause::kCancelled);
  request.deadline = Seconds(0);
  const StudyResult late = Answer(request);
  EXPECT_EQ(late.trial_summary->stop, TrialStop::kTimeLimit);
  EXPECT_EQ(late.search.stop_cause, StopCause::kDeadline);
  EXPECT_TRUE(late.trials.empty());
  EXPECT_EQ(late.plans.size(), 1u);  // the model's
}

TEST(ReplayStudyTest, AllFailingIsAnAnswerThatSaysSo) {
  const StudyResult result =
      Answer(Replayed({Row(Plan(1, 1), Outcome::kOom), Row(Plan(2, 1), Outcome::kCrash)}, 2));
  EXPECT_TRUE(result.plans.empty());
  EXPECT_EQ(result.warnings.back(), "none of 2 trials ran to a measured step");
  EXPECT_EQ(result.trial_summary->remaining_gain, 1);
}

TEST(ReplayStudyTest, QuestionsThatRunNothingRefuseTrials) {
  const auto answer = RunStudy(Replayed({Row(Plan(1, 1), Outcome::kOk, 1)}, 1), Known(), {});
  ASSERT_EQ(FieldViolations(answer.status()).size(), 1u);
  EXPECT_EQ(FieldViolations(answer.status())[0].field, "trials");
}

}  // namespace
}  // namespace meshwright
