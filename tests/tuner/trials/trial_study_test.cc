#include "server/tuner/trials/trial_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/trial.h"
#include "tests/tuner/fake_launcher.h"
#include "tests/tuner/prepared.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(TrialStudyTest, MeasuresTheBaselineFirst) {
  StudyRequest request = {.question = TinyQuestion()};
  request.trials = TrialRequest{.budget = {.trials = 5}};
  FakeLauncher launcher(
      [](const ParallelPlan& plan) { return After(plan.micro_batch_size == 2 ? 0.5 : 1.0); });
  const ParallelPlan candidate = {
      .data_parallel = 4, .micro_batch_size = 2, .layers_per_stage = {4}};
  const auto answer = RunTrialStudy(Prepared(request),
                                    {.candidates = {candidate}, .runs_jobs = true}, launcher, {});
  const auto& result = std::get<StudyResult>(*answer);
  ASSERT_EQ(result.trials.size(), 2u);
  EXPECT_EQ(result.trials[0].plan, result.baseline->plan);
  EXPECT_NEAR(result.baseline->estimate.step_time.count(), 1.0, 1e-9);
  EXPECT_EQ(result.baseline->estimate.provenance, Provenance::kMeasured);
  EXPECT_EQ(result.plans[0].plan, candidate);
}

TEST(TrialStudyTest, ABaselineThatFailedIsNotComparedWith) {
  StudyRequest request = {.question = TinyQuestion()};
  request.trials = TrialRequest{.budget = {.trials = 5}};
  FakeLauncher launcher([](const ParallelPlan& plan) -> TrialOutcome {
    if (plan.micro_batch_size == 2) return After(0.5);
    return OutOfMemory();
  });
  const ParallelPlan candidate = {
      .data_parallel = 4, .micro_batch_size = 2, .layers_per_stage = {4}};
  const auto answer = RunTrialStudy(Prepared(request),
                                    {.candidates = {candidate}, .runs_jobs = true}, launcher, {});
  const auto& result = std::get<StudyResult>(*answer);
  EXPECT_FALSE(result.baseline.has_value());
  EXPECT_THAT(result.warnings,
              testing::Contains(
                  "the baseline's trial ended with oom, so there is no time to compare with"));
}

// A plan that crashed twice in this job before is neither tried nor answered.
TEST(TrialStudyTest, WhatFailedInTheHistoryIsNotTriedAgain) {
  StudyRequest request = {.question = TinyQuestion()};
  request.trials = TrialRequest{.budget = {.trials = 5}};
  const ParallelPlan failed = {.data_parallel = 4, .micro_batch_size = 2, .layers_per_stage = {4}};
  ParallelPlan other = failed;
  other.micro_batch_size = 1;
  const HistoryRow row = {
      .question = request.question, .plan = StatedPlan(failed), .outcome = Outcome::kCrash};
  request.history = {row, row};
  FakeLauncher launcher([](const ParallelPlan&) { return After(1); });
  const auto answer =
      RunTrialStudy(Prepared(request), {.candidates = {failed, other}}, launcher, {});
  const auto& result = std::get<StudyResult>(*answer);
  EXPECT_EQ(launcher.submitted, std::vector{other});
  ASSERT_EQ(result.plans.size(), 1u);
  EXPECT_EQ(result.plans.front().plan, other);
}

TEST(TrialStudyTest, ABaselineThatFailedInTheHistoryHadNoTrial) {
  StudyRequest request = {.question = TinyQuestion(),
                          .baseline = PlanRequest{.tensor_parallel = 2}};
  request.trials = TrialRequest{.budget = {.trials = 5}};
  const HistoryRow row = {
      .question = request.question, .plan = *request.baseline, .outcome = Outcome::kCrash};
  request.history = {row, row};
  FakeLauncher launcher([](const ParallelPlan&) { return After(1); });
  const ParallelPlan candidate = {.data_parallel = 4, .layers_per_stage = {4}};
  const auto answer = RunTrialStudy(Prepared(request),
                                    {.candidates = {candidate}, .runs_jobs = true}, launcher, {});
  const auto& result = std::get<StudyResult>(*answer);
  EXPECT_EQ(launcher.submitted, std::vector{candidate});
  EXPECT_FALSE(result.baseline.has_value());
  EXPECT_EQ(std::ranges::count(result.warnings,
                               "the baseline's run in the history ended with crash, so there is no "
                               "time to compare with"),
            1);
}

struct JobsEnd {
  std::optional<double> stated;
  bool runs_jobs;
  TrialStop stop;
  bool is_said;  // that the ratio is a default
};

TEST(TrialStudyTest, JobsEndWithinTwoPercentUnlessAnotherRatioIsStated) {
  const Problem problem = Resolved(TinyQuestion());

  const JobsEnd kEnds[] = {{std::nullopt, true, TrialStop::kWithinRatio, true},
                           {0.02, true, TrialStop::kWithinRatio, false},
                           {0, true, TrialStop::kAllTried, false},
                           {std::nullopt, false, TrialStop::kAllTried, false},
                           {0.02, false, TrialStop::kWithinRatio, false}};
  for (const JobsEnd& end : kEnds) {
    SCOPED_TRACE(testing::Message()
                 << (end.stated.has_value() ? "stated" : "not stated") << " " << end.runs_jobs);
    StudyRequest request = {.question = TinyQuestion(),
                            .disabled_rules = {"bound", "memory", "history"}};
    request.trials = TrialRequest{.budget = {.trials = 100, .stop_within = end.stated}};
    FakeLauncher launcher([&](const ParallelPlan& plan) {
      return Ran{.step_time = AnalyticModel(ToEstimatorProblem(problem)).Full(plan).step_time};
    });
    const auto answer =
        RunTrialStudy(Prepared(request),
                      {.candidates = TinyCandidates(), .runs_jobs = end.runs_jobs}, launcher, {});
    const auto& result = std::get<StudyResult>(*answer);
    EXPECT_EQ(result.trial_summary->stop, end.stop);
    const bool is_all = result.trials.size() >= TinyCandidates().size();
    EXPECT_EQ(is_all, end.stop == TrialStop::kAllTried);
    const auto said = std::ranges::count(
        result.applied_defaults,
        AppliedDefault{"trials.stop_within_ratio", "0.02", "trials of real jobs"});
    EXPECT_EQ(said, end.is_said ? 1 : 0);
  }
}

TEST(TrialStudyTest, ALauncherThatCannotStartIsAnError) {
  StudyRequest request = {.question = TinyQuestion()};
  request.trials = TrialRequest{.budget = {.trials = 5}};
  FakeLauncher launcher([](const ParallelPlan&) { return After(1); });
  launcher.fails_at = 0;
  const ParallelPlan candidate = {.data_parallel = 4, .layers_per_stage = {4}};
  const auto answer = RunTrialStudy(Prepared(request), {.candidates = {candidate}}, launcher, {});
  EXPECT_EQ(answer.status().message(), "no scheduler");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
