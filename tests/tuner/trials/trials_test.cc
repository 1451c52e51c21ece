#include "server/tuner/trials/trials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/trial_chooser.h"
#include "server/tuner/trials/trial_pruning.h"
#include "tests/tuner/fake_launcher.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Returns a candidate whose modelled step takes `seconds` and whose modelled memory is `gib` of 80.
RankedPlan Candidate(int micro_batch, double seconds, double gib = 10, double fits = 1) {
  return {.plan = {.micro_batch_size = micro_batch},
          .estimate = {.step_time = Seconds(seconds),
                       .peak_memory = GiB(gib),
                       .reserved_memory = GiB(gib),
                       .memory_capacity = GiB(80),
                       .fits = fits > 0.5,
                       .fit_probability = fits}};
}

TEST(TrialChooserTest, TheFastestLikelyPlanComesFirst) {
  const TrialChooser chooser({Candidate(1, 5), Candidate(2, 3), Candidate(4, 2, 79, 0.1)}, 4);
  const auto next = chooser.Next();
  EXPECT_EQ(next->candidate, 1u);
  EXPECT_EQ(next->step_time, Seconds(3));
  EXPECT_EQ(next->success_probability, 1);
}

TEST(TrialChooserTest, TiesGoToTheFirst) {
  const TrialChooser chooser({Candidate(2, 3), Candidate(2, 3)}, 4);
  EXPECT_EQ(chooser.Next()->candidate, 0u);
}

TEST(TrialChooserTest, RunsCorrectWhatIsExpectedOfTheOthers) {
  TrialChooser chooser({Candidate(1, 5), Candidate(2, 3)}, 4);
  chooser.Learn(1, After(6));
  EXPECT_GT(chooser.Expect(0).step_time, Seconds(8));
  EXPECT_LT(chooser.Expect(0).step_time, Seconds(10));
  EXPECT_EQ(chooser.best(), Seconds(6));
}

// There are ten similar plans, two that are unlike them and each other and may be the best, and one
// that cannot be. The history covers three more.
TEST(TrialChooserTest, LooksElsewhereAfterEachFourTrialsWithoutGain) {
  std::vector<RankedPlan> candidates(13, Candidate(1, 1));
  candidates.push_back(Candidate(64, 1.12));
  candidates.push_back(Candidate(4096, 1.13));
  candidates.push_back(Candidate(1 << 20, 30));
  TrialChooser chooser(candidates, 4);
  for (std::size_t past = 10; past < 13; ++past) chooser.Learn(past, After(1.02));
  chooser.BeginTrials();
  chooser.Learn(chooser.Next()->candidate, After(1));
  std::vector<std::size_t> tried;
  for (int trial = 0; trial < 10; ++trial) {
    const std::size_t next = chooser.Next()->candidate;
    tried.push_back(
        std::max<std::size_t>(next, 9));  // which of those that are alike does not matter
    chooser.Learn(next, After(1.02));
    if (trial == 5) chooser.Reconsider(candidates);
  }
  EXPECT_EQ(tried, (std::vector<std::size_t>{9, 9, 9, 9, 13, 9, 9, 9, 14, 9}));
}

TEST(TrialChooserTest, OutOfMemoryMarksPlansOfItsModelledSize) {
  TrialChooser chooser({Candidate(1, 5, 40), Candidate(2, 3, 60), Candidate(4, 2, 70)}, 4);
  chooser.Learn(1, OutOfMemory());
  EXPECT_LT(chooser.Expect(2).success_probability, 1e-3);
  EXPECT_EQ(chooser.Expect(0).success_probability, 1);
  EXPECT_EQ(chooser.Next()->candidate, 0u);
  chooser.Learn(0, After(5));
  EXPECT_EQ(chooser.Next()->candidate, 2u);  // last, not never
}

TEST(TrialChooserTest, ARunOfALargerPlanSpeaksForTheSmaller) {
  TrialChooser chooser({Candidate(1, 5, 50), Candidate(2, 3, 60), Candidate(4, 2, 55)}, 4);
  chooser.Learn(0, OutOfMemory());
  chooser.Learn(1, After(3));
  EXPECT_EQ(chooser.Expect(2).success_probability, 1);
}

TEST(TrialChooserTest, MeasuredMemoryMovesTheProbabilityToFit) {
  const auto probability = [](double measured_gib) {
    TrialChooser chooser({Candidate(1, 5, 40), Candidate(2, 3, 79, 0.6)}, 4);
    chooser.Learn(0, Ran{.step_time = Seconds(5), .peak_memory = GiB(measured_gib)});
    return chooser.Expect(1).success_probability;
  };
  EXPECT_LT(probability(44), 0.1);
  EXPECT_GT(probability(36), 0.9);
}

// The second is modelled ten times slower than the first, the third larger than the fourth, and the
// fifth hardly fits.
TrialChooser RuledOut() {
  return TrialChooser({Candidate(1, 3, 40), Candidate(2, 30, 40), Candidate(4, 3, 95),
                       Candidate(8, 2.9, 92), Candidate(16, 3, 85, 0.005)},
                      4);
}

TEST(TrialChooserTest, RulesOutWhatNeedsNoTrialOnceSomethingHasRun) {
  TrialChooser chooser = RuledOut();
  chooser.Learn(3, OutOfMemory());
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(chooser.RuledOutBy(i), std::nullopt) << i;
  chooser.Learn(0, After(3));
  EXPECT_EQ(chooser.RuledOutBy(1), "bound");
  EXPECT_EQ(chooser.RuledOutBy(2), "history");
  // Even the likeliest is not ruled out if the model has room and no plan as small ran out.
  EXPECT_EQ(TrialChooser({Candidate(1, 3)}, 4).RuledOutBy(0), std::nullopt);
  // A larger plan that runs takes the failure back.
  TrialChooser larger = RuledOut();
  larger.Learn(3, OutOfMemory());
  larger.Learn(2, After(3));
  EXPECT_EQ(larger.SmallestOutOfMemory(), std::nullopt);
  EXPECT_EQ(larger.RuledOutBy(0), std::nullopt);
}

TEST(TrialChooserTest, TriesWhatIsRuledOutAfterAllElse) {
  // The first is modelled a little slower and sure to run; the second fits at 1 in 200.
  TrialChooser chooser({Candidate(1, 3), Candidate(2, 1, 85, 0.005), Candidate(4, 3.2)}, 4);
  chooser.Learn(0, After(3));
  EXPECT_EQ(chooser.RuledOutBy(1), "memory");
  EXPECT_EQ(chooser.Next()->candidate, 2u);
  chooser.Learn(2, After(3.2));
  EXPECT_EQ(chooser.Next()->candidate, 1u);
}

TEST(TrialChooserTest, ADisabledRuleRulesNothingOut) {
  const std::string kHistory = "history";
  TrialChooser chooser({Candidate(1, 3), Candidate(2, 30), Candidate(4, 1, 85, 0.005)}, 4,
                       {"bound"});
  chooser.Learn(0, After(3));
  EXPECT_EQ(chooser.RuledOutBy(1), std::nullopt);
  EXPECT_EQ(chooser.RuledOutBy(2), "memory");
  EXPECT_EQ(chooser.Next()->candidate, 1u);

  const std::vector<RankedPlan> sized = {Candidate(1, 3, 40), Candidate(2, 3, 60),
                                         Candidate(4, 3, 70)};
  for (const bool is_on : {true, false}) {
    TrialChooser after(sized, 4, is_on ? std::vector<std::string>() : std::vector{kHistory});
    after.Learn(1, OutOfMemory());
    after.Learn(0, After(3));
    EXPECT_EQ(after.RuledOutBy(2).has_value(), is_on);
  }
}

TEST(TrialPruningTest, CountsAndNamesWhatNeedsNoTrial) {
  TrialChooser chooser = RuledOut();
  chooser.Learn(3, OutOfMemory());
  chooser.Learn(0, After(3));
  const auto& all = chooser.candidates();
  StudyResult result;
  NotePruned(chooser, std::nullopt, result);
  const std::vector<std::pair<std::string, std::int64_t>> counts = {
      {"memory", 1}, {"history", 1}, {"bound", 1}};
  EXPECT_EQ(result.search.pruned_count_by_rule, counts);
  const auto key = [&](std::size_t i) { return MakePlanKey(all[i].plan).text; };
  ASSERT_EQ(result.warnings.size(), 3u);
  EXPECT_EQ(result.warnings[0],
            "rule memory: 1 candidates need no trial: the smallest, " + key(4) +
                ", is estimated at 85.00 GiB of 80.00 GiB, and after the trials runs with "
                "probability 0.005");
  EXPECT_EQ(result.warnings[1], "rule history: 1 candidates need no trial: the smallest, " +
                                    key(2) +
                                    ", is estimated at 95.00 GiB, not less than the 92.00 GiB of " +
                                    key(3) + ", which ran out of memory");
  EXPECT_EQ(result.warnings[2].find("rule bound: 1 candidates need no trial: the nearest, " +
                                    key(1) + ", is expected to take 30"),
            0u)
      << result.warnings[2];
  EXPECT_NE(result.warnings[2].find(", but " + key(0) + " ran in 3 s"), std::string::npos);
}

struct FailureCase {
  const char* name;
  TrialOutcome outcome;
  double probability;  // of the plan beside it
};

class FailureTest : public testing::TestWithParam<FailureCase> {};

// There is one failure and one prior success: (1 + 0) / (1 + 0 + exp(-1/2)).
const double kBesideAFailure = 1 / (1 + std::exp(-0.5));

const FailureCase kFailures[] = {{"crash", Crashed(), kBesideAFailure},
                                 {"hang", Hung(), kBesideAFailure},
                                 {"timeout", TimedOut(), kBesideAFailure},
                                 {"cancelled", Cancelled(), 1}};

TEST_P(FailureTest, LowersWhatIsExpectedOfPlansLikeIt) {
  TrialChooser chooser({Candidate(1, 5), Candidate(2, 3), Candidate(1024, 4)}, 4);
  chooser.Learn(0, GetParam().outcome);
  EXPECT_NEAR(chooser.Expect(1).success_probability, GetParam().probability, 1e-12);
  EXPECT_NEAR(chooser.Expect(2).success_probability, 1, 1e-9);  // far from it
  EXPECT_EQ(chooser.Expect(1).step_time, Seconds(3));           // it says nothing of time
}

INSTANTIATE_TEST_SUITE_P(All, FailureTest, testing::ValuesIn(kFailures),
                         [](const auto& param) { return std::string(param.param.name); });

std::vector<RankedPlan> FourCandidates() {
  return {Candidate(1, 5), Candidate(2, 3), Candidate(4, 4), Candidate(8, 6)};
}

TrialsRun RunAll(FakeLauncher& launcher, const TrialOptions& options) {
  TrialChooser chooser(FourCandidates(), 4);
  return RunTrials(chooser, launcher, options);
}

FakeLauncher AsModelled() {
  return FakeLauncher([](const ParallelPlan& plan) { return After(plan.micro_batch_size); });
}

TEST(RunTrialsTest, TriesEveryCandidateOnce) {
  FakeLauncher launcher = FakeLauncher([](const ParallelPlan& plan) -> TrialOutcome {
    if (plan.micro_batch_size == 2) return Crashed();
    if (plan.micro_batch_size == 4) return OutOfMemory();
    return After(1);
  });
  const TrialsRun run = RunAll(launcher, {.budget = {.trials = 100}});
  EXPECT_EQ(run.summary.stop, TrialStop::kAllTried);
  EXPECT_EQ(run.tried.size(), 4u);
  EXPECT_EQ(std::set(launcher.submitted.begin(), launcher.submitted.end()).size(), 4u);
  EXPECT_EQ(run.summary.remaining_gain, 0);
}

// The third and the fourth run out of memory; the baseline runs although it is ruled out.
TEST(RunTrialsTest, SkipsWhatIsRuledOut) {
  const auto run_out = [](const ParallelPlan& plan) -> TrialOutcome {
    if (plan.micro_batch_size == 4) return OutOfMemory();
    return After(plan.micro_batch_size);
  };
  const auto tried = [&](const TrialOptions& options) {
    FakeLauncher launcher = FakeLauncher(run_out);
    TrialChooser chooser(
        {Candidate(1, 5, 40), Candidate(2, 4, 50), Candidate(4, 3, 70), Candidate(8, 6, 75)}, 4);
    chooser.Learn(0, After(5));
    TrialsRun run = RunTrials(chooser, launcher, options);
    return std::pair(run.tried.size(), run.summary.stop);
  };
  TrialOptions options = {.budget = {.trials = 100}};
  EXPECT_EQ(tried(options), std::pair(std::size_t{3}, TrialStop::kAllTried));
  options.skips_ruled_out = true;
  EXPECT_EQ(tried(options), std::pair(std::size_t{2}, TrialStop::kRestRuledOut));
  options.baseline = 3;
  EXPECT_EQ(tried(options), std::pair(std::size_t{3}, TrialStop::kAllTried));
}

struct StopCase {
  const char* name;
  TrialOptions options;
  TrialStop stop;
  std::size_t tried;
};

class StopTest : public testing::TestWithParam<StopCase> {};

// A trial is expected to take 120 s and ten steps of 3 to 6 s, and takes 100 s.
const StopCase kStops[] = {
    {"trials", {.budget = {.trials = 2}}, TrialStop::kTrialLimit, 2},
    {"no_trials", {.budget = {.trials = 0}}, TrialStop::kTrialLimit, 0},
    // 8 x 150 = 1,200 are expected of the first.
    {"device_time_before_it_is_spent",
     {.budget = {.trials = 9, .device_time = Seconds(1199)}, .device_count = 8},
     TrialStop::kDeviceTimeLimit,
     0},
    {"device_time",
     {.budget = {.trials = 9, .device_time = Seconds(1201)}, .device_count = 8},
     TrialStop::kDeviceTimeLimit,
     1},
    {"time", {.budget = {.trials = 9, .time = Seconds(151)}}, TrialStop::kTimeLimit, 1},
    {"stopped",
     {.budget = {.trials = 9}, .should_stop = [] { return true; }},
     TrialStop::kCancelled,
     0}};

TEST_P(StopTest, EndsBeforeTheNextTrial) {
  FakeLauncher launcher = AsModelled();
  const TrialsRun run = RunAll(launcher, GetParam().options);
  EXPECT_EQ(run.summary.stop, GetParam().stop);
  EXPECT_EQ(run.tried.size(), GetParam().tried);
  EXPECT_EQ(run.summary.time, static_cast<double>(run.tried.size()) * Seconds(100));
}

INSTANTIATE_TEST_SUITE_P(All, StopTest, testing::ValuesIn(kStops),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(RunTrialsTest, WhatIsLeftOfTheBudgetsIsReserved) {
  FakeLauncher launcher = AsModelled();
  const TrialBudget both = {.trials = 2, .device_time = Seconds(8000), .time = Seconds(900)};
  RunAll(launcher, {.budget = both, .device_count = 8});
  EXPECT_EQ(launcher.times_left, (std::vector<std::optional<Seconds>>{Seconds(900), Seconds(800)}));
  FakeLauncher free = AsModelled();
  RunAll(free, {.budget = {.trials = 1}});
  EXPECT_EQ(free.times_left, (std::vector<std::optional<Seconds>>{std::nullopt}));
}

// A job that what was left of the budget has ended has shown nothing of its plan, and its time is
// spent. A trial is expected to take 8 x (120 + 10 x 3 s) = 1,200 of the device time, or 1,280 with
// 4 s. The first takes 8 x 200, so that 2,900 - 1,600 = 1,300 are left for the second: 162.5 s.
TEST(RunTrialsTest, ATrialThatTheBudgetCutsIsSpentAndTeachesNothing) {
  FakeLauncher launcher([begun = 0](const ParallelPlan& /*plan*/) mutable -> TrialOutcome {
    return ++begun == 1 ? After(3) : TrialOutcome(Cancelled());
  });
  launcher.time = Seconds(200);
  const TrialBudget budget = {.trials = 9, .device_time = Seconds(2900), .stop_within = 0};
  const TrialsRun run = RunAll(launcher, {.budget = budget, .device_count = 8});
  EXPECT_EQ(launcher.times_left,
            (std::vector<std::optional<Seconds>>{Seconds(362.5), Seconds(162.5)}));
  ASSERT_EQ(run.tried.size(), 2u);
  EXPECT_EQ(run.tried[1].outcome, TrialOutcome(Cancelled()));
  EXPECT_EQ(run.summary.device_time, Seconds(3200));
  EXPECT_EQ(run.summary.stop, TrialStop::kDeviceTimeLimit);
}

TEST(RunTrialsTest, EndsWhenNothingIsWorthATrial) {
  TrialOptions options = {.budget = {.trials = 9, .stop_within = 0.02}};
  // The others are modelled a third slower and more: nothing to be gained after the first.
  FakeLauncher launcher([](const ParallelPlan&) { return After(3); });
  const TrialsRun run = RunAll(launcher, options);
  EXPECT_EQ(run.summary.stop, TrialStop::kWithinRatio);
  EXPECT_EQ(run.tried.size(), 1u);
  EXPECT_EQ(run.summary.best, Seconds(3));
  ASSERT_TRUE(run.summary.optimistic.has_value());
  EXPECT_GE(*run.summary.optimistic, 0.98 * Seconds(3));
  EXPECT_EQ(run.summary.remaining_gain, std::max(0.0, 1 - *run.summary.optimistic / Seconds(3)));
  // A first that is far slower than modelled leaves the next one to try.
  TrialChooser chooser({Candidate(1, 3), Candidate(2, 3.05)}, 4);
  FakeLauncher slow([](const ParallelPlan&) { return After(3.6); });
  EXPECT_EQ(RunTrials(chooser, slow, options).tried.size(), 2u);
}

TEST(RunTrialsTest, ARatioOfZeroEndsNoTrials) {
  FakeLauncher launcher([](const ParallelPlan&) { return After(3); });
  const TrialsRun run = RunAll(launcher, {.budget = {.trials = 9, .stop_within = 0}});
  EXPECT_EQ(run.summary.stop, TrialStop::kAllTried);
  EXPECT_EQ(run.tried.size(), 4u);
  EXPECT_EQ(run.summary.optimistic, std::nullopt);
}

// The earlier run is within the ratio of every plan left; without it there is nothing to compare
// with.
TEST(RunTrialsTest, TheBaselineIsTriedWhateverIsLeftToGain) {
  for (const std::size_t runs : {0u, 1u}) {
    TrialChooser chooser(FourCandidates(), 4);
    chooser.Learn(1, After(3));
    TrialOptions options = {.budget = {.trials = 9, .stop_within = 0.02}};
    if (runs == 1) options.baseline = 3;
    FakeLauncher launcher = AsModelled();
    const TrialsRun run = RunTrials(chooser, launcher, options);
    EXPECT_EQ(run.summary.stop, TrialStop::kWithinRatio);
    EXPECT_EQ(run.tried.size(), runs);
  }
}

TEST(RunTrialsTest, TheBaselineIsTriedFirst) {
  FakeLauncher launcher = AsModelled();
  const TrialsRun run = RunAll(launcher, {.budget = {.trials = 2}, .baseline = 3});
  ASSERT_EQ(run.tried.size(), 2u);
  EXPECT_EQ(run.tried[0].plan.micro_batch_size, 8);
  EXPECT_EQ(run.tried[0].expected_step_time, Seconds(6));
}

TEST(RunTrialsTest, AFailingLauncherLeavesWhatWasMeasured) {
  FakeLauncher launcher = AsModelled();
  launcher.fails_at = 2;
  const TrialsRun run = RunAll(launcher, {.budget = {.trials = 9}});
  EXPECT_EQ(run.summary.stop, TrialStop::kLauncherFailed);
  EXPECT_EQ(run.tried.size(), 2u);
  EXPECT_EQ(run.failure.message(), "no scheduler");
}

TEST(RunTrialsTest, WhatRunsIsCancelledWhenStopped) {
  FakeLauncher launcher = AsModelled();
  int looks = 0;
  // The third look is at the second trial's first wait: one before each trial, one at each wait.
  const TrialsRun run =
      RunAll(launcher, {.budget = {.trials = 9}, .should_stop = [&looks] { return ++looks >= 4; }});
  EXPECT_EQ(run.summary.stop, TrialStop::kCancelled);
  EXPECT_EQ(launcher.cancels, 1);
  ASSERT_EQ(run.tried.size(), 2u);
  EXPECT_EQ(OutcomeOf(run.tried[0].outcome), Outcome::kOk);
  EXPECT_EQ(OutcomeOf(run.tried[1].outcome), Outcome::kCancelled);
}

TEST(RunTrialsTest, AJobThatDoesNotEndIsGivenUp) {
  FakeLauncher launcher = AsModelled();
  launcher.hangs = true;
  int looks = 0;
  const TrialsRun run =
      RunAll(launcher, {.budget = {.trials = 9}, .should_stop = [&looks] { return ++looks >= 2; }});
  EXPECT_EQ(run.summary.stop, TrialStop::kCancelled);
  EXPECT_TRUE(run.tried.empty());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
