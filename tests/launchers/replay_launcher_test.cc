#include "server/launchers/replay_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/launchers/launchers.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/trial.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

PlanRequest Plan(int tensor, int micro_batch) {
  return {.tensor_parallel = tensor, .micro_batch_size = micro_batch};
}

MeasuredPlan Row(const PlanRequest& plan, Outcome outcome, double seconds = 0) {
  MeasuredPlan row = {.plan = plan, .outcome = outcome};
  if (outcome == Outcome::kOk) row.step_time = Seconds(seconds);
  return row;
}

StudyRequest Replayed(std::vector<MeasuredPlan> rows, int trials) {
  StudyRequest request = {.question = TinyQuestion()};
  request.trials = TrialRequest{.launcher = std::string(kReplayLauncher),
                                .replay = std::move(rows),
                                .budget = {.trials = trials}};
  return request;
}

ReplayLauncher LauncherOf(std::vector<MeasuredPlan> rows) {
  return ReplayLauncher(ResolveStudy(Replayed(std::move(rows), 1), Known()).value());
}

// Returns the outcome of the only plan in the rows.
TrialOutcome OutcomeOfRows(const std::vector<MeasuredPlan>& rows) {
  ReplayLauncher launcher = LauncherOf(rows);
  EXPECT_EQ(launcher.Plans().size(), 1u);
  EXPECT_TRUE(launcher.Submit({.id = 7, .plan = launcher.Plans().front()}).ok());
  const auto finished = launcher.Wait(Seconds(0)).value();
  EXPECT_EQ(finished->id, 7);
  EXPECT_EQ(launcher.Wait(Seconds(0)).value(), std::nullopt);  // told only once
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
    // The same plan, with its split of four layers stated.
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
  ReplayLauncher launcher = LauncherOf({Row(kPlan, Outcome::kOk, 3)});
  EXPECT_EQ(launcher.Submit({.plan = {.tensor_parallel = 4}}).code(), absl::StatusCode::kNotFound);
}

StudyResult Answer(StudyRequest request) {
  request.history = ResolvedRows(std::move(request.history));
  return std::get<StudyResult>(
      RunStudyWithTrials(ResolveStudy(std::move(request), Known()).value(), Known(), {}).value());
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
  // Two runs took half as long again as the model expects; so does the third plan, except for the
  // share of the prior.
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
  // A run of another job only teaches.
  std::optional<int>& length = request.history[0].question.workload.sequence_length;
  length = *length / 2;
  EXPECT_EQ(Answer(request).trials.size(), 2u);
}

// Returns rows of plans that take `ratio` times what the model expects without history.
std::vector<MeasuredPlan> SlowerBy(double ratio, const std::vector<PlanRequest>& plans) {
  std::vector<MeasuredPlan> rows;
  for (const PlanRequest& plan : plans) {
    const auto expected = EvaluatePlan({.question = TinyQuestion(), .plan = plan}, Known(), {});
    rows.push_back(Row(plan, Outcome::kOk, ratio * expected.value().step_time.count()));
  }
  return rows;
}

// Lessons of other jobs' runs are dropped as soon as trials contradict them: for the trials that
// follow, in the answer, and in what the answer says about itself.
TEST(ReplayStudyTest, TrialsThatContradictOtherJobsDropWhatTheseTaught) {
  StudyRequest request =
      Replayed(SlowerBy(1, {Plan(1, 1), Plan(1, 2), Plan(2, 1), Plan(2, 2), Plan(4, 1)}), 4);
  Question other = TinyQuestion();
  other.workload.sequence_length = *other.workload.sequence_length / 2;
  const auto elsewhere = EvaluatePlan({.question = other, .plan = Plan(1, 1)}, Known(), {});
  request.history.assign(
      10, {.question = other, .plan = Plan(1, 1), .step_time = 3 * elsewhere.value().step_time});
  request.warnings = {"the store says"};
  const StudyResult result = Answer(request);
  ASSERT_EQ(result.trials.size(), 4u);
  const auto measured = [&](std::size_t i) {
    return std::get<Ran>(result.trials[i].outcome).step_time;
  };
  EXPECT_GT(result.trials[0].expected_step_time / measured(0), 1.5);  // by the other job's runs
  EXPECT_NEAR(result.trials[3].expected_step_time / measured(3), 1, 0.1);
  EXPECT_THAT(result.warnings, testing::Contains(testing::HasSubstr("were left out")));
  EXPECT_THAT(result.warnings, testing::Not(testing::Contains(testing::HasSubstr("learnt from"))));
  EXPECT_THAT(result.warnings, testing::Contains("the store says"));
  EXPECT_FALSE(result.calibration.has_value());  // nothing else was learnt
  const RankedPlan& open = result.plans.back();
  ASSERT_NE(open.estimate.provenance, Provenance::kMeasured);
  const auto alone =
      EvaluatePlan({.question = TinyQuestion(), .plan = StatedPlan(open.plan)}, Known(), {});
  EXPECT_NEAR(open.estimate.step_time / alone.value().step_time, 1, 0.05);
  // Lessons that agree stay.
  for (HistoryRow& row : request.history) row.step_time = elsewhere.value().step_time;
  const StudyResult agreeing = Answer(request);
  EXPECT_THAT(agreeing.warnings, testing::Contains(testing::HasSubstr("learnt from")));
  EXPECT_TRUE(agreeing.calibration.has_value());
}

// A candidate that failed in the history is not tried, and the answer says why.
TEST(ReplayStudyTest, WhatFailedInTheHistoryIsNamed) {
  StudyRequest request =
      Replayed({Row(Plan(1, 1), Outcome::kOk, 0.5), Row(Plan(2, 1), Outcome::kOk, 0.25)}, 2);
  const HistoryRow crash = {
      .question = TinyQuestion(), .plan = Plan(2, 1), .outcome = Outcome::kCrash};
  request.history = {crash, crash};
  const StudyResult result = Answer(request);
  EXPECT_EQ(result.trials.size(), 1u);
  EXPECT_THAT(result.warnings, testing::Contains(testing::AllOf(testing::HasSubstr("not tried"),
                                                                testing::HasSubstr("crash"))));
}

// A vendor's model for which tensor parallelism costs nothing and everything else is ten times as
// slow.
class TensorLover final : public PlanModel {
 public:
  explicit TensorLover(bool knows_any) : PlanModel({.name = "acme", .version = "1"}, {"new here"}) {
    knows_any_ = knows_any;
  }
  absl::StatusOr<std::vector<PlanFigures>> Estimate(std::span<const ParallelPlan> plans,
                                                    const BatchOptions& /*options*/) override {
    std::vector<PlanFigures> figures;
    for (const ParallelPlan& plan : plans) {
      if (!knows_any_) {
        figures.push_back({.verdict = PlanVerdict::kUnsupported, .reason = "never seen"});
        continue;
      }
      const Seconds time(10.0 / plan.tensor_parallel + plan.micro_batch_size);
      figures.push_back({.verdict = PlanVerdict::kOk, .step_time = time});
    }
    return figures;
  }

 private:
  bool knows_any_ = true;
};

absl::StatusOr<StudyAnswer> AnswerBy(const StudyRequest& request, bool knows_any) {
  StudyControl control;
  control.open_model =
      [knows_any](std::string_view /*name*/, const Problem& /*problem*/,
                  const std::stop_token& /*cancel*/) -> absl::StatusOr<std::unique_ptr<PlanModel>> {
    return std::make_unique<TensorLover>(knows_any);
  };
  return RunStudyWithTrials(ResolveStudy(request, Known()).value(), Known(), control);
}

TEST(ReplayStudyTest, AVendorsModelChoosesTheTrials) {
  StudyRequest request =
      Replayed({Row(Plan(1, 1), Outcome::kOk, 5.5), Row(Plan(2, 1), Outcome::kOk, 3),
                Row(Plan(4, 1), Outcome::kOk, 1.75)},
               2);
  request.cost_model = CostModelRequest{.name = "acme"};
  const StudyResult result = std::get<StudyResult>(AnswerBy(request, true).value());
  ASSERT_EQ(result.trials.size(), 2u);
  EXPECT_EQ(result.trials[0].plan.tensor_parallel, 4);
  EXPECT_EQ(result.trials[0].expected_step_time, Seconds(3.5));
  EXPECT_EQ(result.trials[1].plan.tensor_parallel, 2);
  ASSERT_EQ(result.plans.size(), 3u);
  EXPECT_EQ(result.plans[0].estimate.step_time, Seconds(1.75));
  EXPECT_EQ(result.plans[0].estimate.provenance, Provenance::kMeasured);
  // It takes half of the vendor's 11 s, like the two that ran, except for the share of the prior.
  const Estimate& open = result.plans[2].estimate;
  EXPECT_EQ(open.cost_model->name, "acme");
  EXPECT_FALSE(open.cost_model->is_fallback);
  EXPECT_GT(open.step_time, Seconds(5.5));
  EXPECT_LT(open.step_time, Seconds(8));
  EXPECT_LT(open.step_time_low, open.step_time);
  Seconds sum(0);
  for (const Seconds line : open.breakdown) sum += line;
  EXPECT_NEAR(sum / open.step_time, 1, 1e-9);
  EXPECT_THAT(result.warnings, testing::Contains("new here"));
}

TEST(ReplayStudyTest, AVendorsModelThatKnowsNoneOfThem) {
  StudyRequest request = Replayed({Row(Plan(1, 1), Outcome::kOk, 5.5)}, 1);
  request.cost_model = CostModelRequest{.name = "acme"};
  const auto refused = AnswerBy(request, false);
  EXPECT_EQ(Reason(refused.status()), "COST_MODEL_NO_ESTIMATE");
  EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("never seen"));
  request.cost_model->allow_fallback = true;
  const StudyResult result = std::get<StudyResult>(AnswerBy(request, false).value());
  EXPECT_EQ(result.plans.front().estimate.provenance, Provenance::kMeasured);
  EXPECT_EQ(result.trials.size(), 1u);
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
  const auto cancelled =
      std::get<StudyResult>(RunStudyWithTrials(ResolveStudy(request, Known()).value(), Known(),
                                               {.cancel = stop.get_token()})
                                .value());
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
  EXPECT_EQ(result.warnings.back(), "none of 2 trials measured a step");
  EXPECT_EQ(result.trial_summary->remaining_gain, 1);
}

TEST(ReplayStudyTest, QuestionsThatRunNothingRefuseTrials) {
  const auto answer = RunStudy(Replayed({Row(Plan(1, 1), Outcome::kOk, 1)}, 1), Known(), {});
  ASSERT_EQ(FieldViolations(answer.status()).size(), 1u);
  EXPECT_EQ(FieldViolations(answer.status())[0].field, "trials");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
