#include "server/tuner/trials/trial_repeats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/question/trial_journal.h"
#include "server/tuner/trials/trial_chooser.h"
#include "server/tuner/trials/trial_pruning.h"
#include "server/tuner/trials/trial_study.h"
#include "server/tuner/trials/trials.h"
#include "tests/tuner/fake_launcher.h"
#include "tests/tuner/prepared.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr TrialRepeats kInterleaved = {.interleaves_baseline = true};

ParallelPlan Plan(int micro_batch) { return {.micro_batch_size = micro_batch}; }

// Returns trials with these micro-batches and step times, in this order; 0 means crashed, and a
// negative time cancelled.
std::vector<TriedPlan> Tried(const std::vector<std::pair<int, double>>& runs,
                             const TrialRepeats& repeats) {
  std::vector<TriedPlan> tried;
  for (const auto& [micro_batch, seconds] : runs) {
    TriedPlan trial = {.plan = Plan(micro_batch), .outcome = Cancelled()};
    if (seconds > 0) trial.outcome = After(seconds);
    if (seconds == 0) trial.outcome = Crashed();
    const TrialRole role = RoleOf(trial.plan, trial.outcome, tried, repeats);
    trial.purpose = role.purpose;
    trial.reference_step_time = role.reference_step_time;
    tried.push_back(std::move(trial));
  }
  return tried;
}

Seconds TimeOf(const std::vector<TriedPlan>& tried, int micro_batch) {
  return std::get<Ran>(RunsByPlan(tried).at(Plan(micro_batch)).outcome).step_time;
}

TEST(TrialRepeatsTest, ATrialIsComparedWithTheBaselineRightBefore) {
  // The machine is half as fast from the second run of the baseline on.
  const auto tried = Tried({{1, 2}, {2, 1}, {1, 4}, {4, 1.6}, {1, 0}, {8, 2}}, kInterleaved);
  EXPECT_EQ(tried[1].purpose, TrialPurpose::kSearch);
  EXPECT_EQ(tried[1].reference_step_time, Seconds(2));
  EXPECT_EQ(tried[2].purpose, TrialPurpose::kReference);
  EXPECT_EQ(tried[3].reference_step_time, Seconds(4));
  EXPECT_EQ(tried[5].reference_step_time, Seconds(4));  // the last one that ran
  EXPECT_EQ(TimeOf(tried, 1), Seconds(2));
  EXPECT_EQ(TimeOf(tried, 2), Seconds(1));
  EXPECT_EQ(TimeOf(tried, 4), Seconds(0.8));
  EXPECT_EQ(TimeOf(tried, 8), Seconds(1));
  EXPECT_EQ(SlownessNow(tried, kInterleaved), 2);
  EXPECT_EQ(SlownessNow(tried, {}), 1);
}

TEST(TrialRepeatsTest, TheBaselineIsDueAfterEachTrial) {
  EXPECT_FALSE(IsReferenceDue({}, kInterleaved));
  EXPECT_FALSE(IsReferenceDue(Tried({{1, 2}}, kInterleaved), kInterleaved));
  EXPECT_TRUE(IsReferenceDue(Tried({{1, 2}, {2, 1}}, kInterleaved), kInterleaved));
  EXPECT_FALSE(IsReferenceDue(Tried({{1, 2}, {2, 1}, {1, 2}}, kInterleaved), kInterleaved));
  EXPECT_FALSE(IsReferenceDue(Tried({{1, 2}, {2, 1}}, {}), {}));
  // There is no run to compare with.
  EXPECT_FALSE(IsReferenceDue(Tried({{1, 0}, {2, 1}}, kInterleaved), kInterleaved));
  // A cancelled run proves nothing, so the baseline runs once more.
  EXPECT_TRUE(IsReferenceDue(Tried({{1, -1}}, kInterleaved), kInterleaved));
  EXPECT_FALSE(IsReferenceDue(Tried({{1, -1}, {1, -1}}, kInterleaved), kInterleaved));
  const auto late = Tried({{1, -1}, {1, 2}, {2, 1}}, kInterleaved);
  EXPECT_TRUE(IsReferenceDue(late, kInterleaved));
  EXPECT_EQ(late[2].reference_step_time, Seconds(2));
  EXPECT_EQ(TimeOf(late, 2), Seconds(1));
}

TEST(TrialRepeatsTest, TheFastestRunAgainUntilTheyHaveRunOftenEnough) {
  const TrialRepeats repeats = {.confirmed_plans = 2};
  std::vector<std::pair<int, double>> runs = {{1, 4}, {2, 1.0}, {4, 1.1}, {8, 1.2}, {16, 0}};
  std::vector<int> confirmed;
  while (const auto next = NextToConfirm(Tried(runs, repeats), repeats)) {
    confirmed.push_back(next->micro_batch_size);
    // The second was lucky, and the fourth was not.
    const double seconds = next->micro_batch_size == 2 ? 1.3 : 1.1;
    runs.emplace_back(next->micro_batch_size, seconds);
    ASSERT_LT(runs.size(), 30u);
  }
  EXPECT_EQ(confirmed, (std::vector<int>{2, 4, 4, 2, 8, 8, 4, 8}));
  EXPECT_EQ(TimeOf(Tried(runs, repeats), 4), Seconds(1.1));
  EXPECT_EQ(TimeOf(Tried(runs, repeats), 8), Seconds(1.1));
  EXPECT_EQ(NextToConfirm(Tried(runs, {}), {}), std::nullopt);
}

TEST(TrialRepeatsTest, TheBaselineIsNotConfirmedWhereItIsTheMeasure) {
  const TrialRepeats repeats = {.interleaves_baseline = true, .confirmed_plans = 1};
  EXPECT_EQ(NextToConfirm(Tried({{1, 1}, {2, 2}}, repeats), repeats), Plan(2));
  const TrialRepeats alone = {.confirmed_plans = 1};
  EXPECT_EQ(NextToConfirm(Tried({{1, 1}, {2, 2}}, alone), alone), Plan(1));
}

TEST(TrialRepeatsTest, APlanOfWhichMostRunsFailHasFailed) {
  const auto tried = Tried({{1, 4}, {2, 1}, {2, 0}, {2, -1}, {4, 0}, {8, 1}, {8, 0}, {8, 0}}, {});
  EXPECT_EQ(TimeOf(tried, 2), Seconds(1));
  const auto runs = RunsByPlan(tried);
  EXPECT_EQ(runs.at(Plan(2)).ran_count, 1);
  EXPECT_EQ(runs.at(Plan(2)).failed_count, 1);
  EXPECT_EQ(OutcomeOf(runs.at(Plan(4)).outcome), Outcome::kCrash);
  EXPECT_EQ(OutcomeOf(runs.at(Plan(8)).outcome), Outcome::kCrash);
}

// A machine that becomes slower with each job, and in every third by a half.
class Drifting {
 public:
  TrialOutcome operator()(const ParallelPlan& plan) {
    const double speed = (1 + 0.1 * runs_) * (runs_ % 6 < 2 ? 1.5 : 1);
    ++runs_;
    return After(speed * TrueSeconds(plan));
  }
  static double TrueSeconds(const ParallelPlan& plan) {
    return 1 + 0.05 * plan.tensor_parallel + 0.02 * plan.micro_batch_size;
  }

 private:
  int runs_ = 0;
};

StudyRequest Request(const TrialRepeats& repeats) {
  StudyRequest request = {.question = TinyQuestion(), .disabled_rules = {"bound"}};
  request.trials = TrialRequest{.budget = {.trials = 6, .stop_within = 0}, .repeats = repeats};
  return request;
}

StudyResult RunStudyOf(const StudyRequest& request, FakeLauncher& launcher,
                       const TrialJournal* journal = nullptr) {
  const auto answer =
      RunTrialStudy(Prepared(request), {.candidates = TinyCandidates(), .runs_jobs = true},
                    launcher, {.trials = journal});
  return std::get<StudyResult>(answer.value());
}

bool Says(const StudyResult& result, std::string_view what) {
  return std::ranges::any_of(result.warnings, [what](const std::string& warning) {
    return warning.find(what) != std::string::npos;
  });
}
constexpr char kNotCompared[] = "no trial could be compared with a run of the baseline";

double BestOf(const StudyResult& result) {
  double best = 1e9;
  for (const TriedPlan& trial : result.trials) {
    best = std::min(best, Drifting::TrueSeconds(trial.plan));
  }
  return best;
}

TEST(TrialRepeatsTest, AStudyOnADriftingMachineFindsTheBestThatItTried) {
  FakeLauncher launcher{Drifting()};
  const StudyResult result =

      RunStudyOf(Request({.interleaves_baseline = true, .confirmed_plans = 2}), launcher);
  EXPECT_EQ(std::ranges::count(result.trials, TrialPurpose::kSearch, &TriedPlan::purpose), 6);
  EXPECT_EQ(result.trial_summary->stop, TrialStop::kTrialLimit);
  EXPECT_GE(std::ranges::count(result.trials, TrialPurpose::kConfirm, &TriedPlan::purpose), 6);
  for (std::size_t i = 2; i < result.trials.size(); ++i) {
    const bool is_reference = result.trials[i].purpose == TrialPurpose::kReference;
    EXPECT_EQ(is_reference, i % 2 == 0) << i;
  }
  EXPECT_EQ(Drifting::TrueSeconds(result.plans.front().plan), BestOf(result));
  EXPECT_FALSE(Says(result, kNotCompared));
}

TEST(TrialRepeatsTest, WithoutABaselineThatRunsAStudySaysSo) {
  bool is_first = true;
  FakeLauncher launcher{[&](const ParallelPlan&) {
    return std::exchange(is_first, false) ? TrialOutcome(Crashed()) : After(1);
  }};
  const StudyResult result = RunStudyOf(Request(kInterleaved), launcher);
  EXPECT_EQ(result.trials.size(), 6u);
  EXPECT_TRUE(Says(result, kNotCompared));
}

// A store's records; it fails after this many calls.
struct Store {
  std::vector<TriedPlan> ended = {};
  std::optional<ParallelPlan> open = {};
  int calls_left = 0;

  absl::Status Take() {
    return calls_left-- > 0 ? absl::OkStatus() : absl::UnavailableError("the process is lost");
  }
  TrialJournal Journal(int calls) {
    calls_left = calls;
    return {.ended = ended,
            .open = open,
            .begin =
                [this](const ExpectedTrial& expected) {
                  absl::Status taken = Take();
                  if (taken.ok()) open = expected.plan;
                  return taken;
                },
            .end =
                [this](int, const TriedPlan& tried) {
                  absl::Status taken = Take();
                  if (!taken.ok()) return taken;
                  // As a store returns it: without what follows from the other fields.
                  ended.push_back({.plan = tried.plan,
                                   .outcome = tried.outcome,
                                   .expected_step_time = tried.expected_step_time,
                                   .device_time = tried.device_time});
                  open.reset();
                  return taken;
                }};
  }
};

TEST(TrialRepeatsTest, AStudyThatWasLostAnywhereGoesOnAsItWouldHave) {
  const TrialRepeats repeats = {.interleaves_baseline = true, .confirmed_plans = 2};
  const auto steady = [](const ParallelPlan& plan) { return After(Drifting::TrueSeconds(plan)); };
  FakeLauncher undisturbed(steady);
  const StudyRequest request = Request(repeats);
  const StudyResult whole = RunStudyOf(request, undisturbed);
  const int calls = 2 * static_cast<int>(whole.trials.size());
  for (int lost_after = 0; lost_after < calls; ++lost_after) {
    SCOPED_TRACE(testing::Message() << "lost after " << lost_after << " calls");
    Store store;
    FakeLauncher first(steady);
    const TrialJournal before = store.Journal(lost_after);
    if (lost_after > 0) RunStudyOf(request, first, &before);
    FakeLauncher second(steady);
    const TrialJournal after = store.Journal(calls);
    const StudyResult result = RunStudyOf(request, second, &after);
    ASSERT_EQ(result.trials.size(), whole.trials.size());
    for (std::size_t i = 0; i < whole.trials.size(); ++i) {
      EXPECT_EQ(result.trials[i].plan, whole.trials[i].plan) << i;
      EXPECT_EQ(result.trials[i].purpose, whole.trials[i].purpose) << i;
      EXPECT_EQ(result.trials[i].reference_step_time, whole.trials[i].reference_step_time) << i;
    }
    EXPECT_EQ(result.plans.front().plan, whole.plans.front().plan);
    EXPECT_EQ(result.plans.front().estimate.step_time, whole.plans.front().estimate.step_time);
  }
}

// A baseline that was fast in the history is not compared with today's ratios.
TEST(TrialRepeatsTest, WhatRanOnAnotherDayOnlySaysWhatIsExpected) {
  StudyRequest request = Request(kInterleaved);
  const PlanRequest known = {.tensor_parallel = 4, .micro_batch_size = 4};
  request.history = {{.question = TinyQuestion(), .plan = known, .step_time = Seconds(0.5)}};
  FakeLauncher launcher(
      [](const ParallelPlan& plan) { return After(10 * Drifting::TrueSeconds(plan)); });
  const StudyResult result = RunStudyOf(request, launcher);
  EXPECT_EQ(Drifting::TrueSeconds(result.plans.front().plan), BestOf(result));
  EXPECT_GT(result.plans.front().estimate.step_time, Seconds(5));
}

// The fastest first run was lucky, so that no plan took that time in the end.
TEST(TrialRepeatsTest, RulesNameThePlanThatTheyLeanOn) {
  int runs = 0;
  FakeLauncher launcher([&](const ParallelPlan&) { return After(1 + 0.01 * runs++); });
  TrialChooser chooser(
      {{.plan = Plan(1), .estimate = {.step_time = Seconds(1), .fit_probability = 1}},
       {.plan = Plan(2), .estimate = {.step_time = Seconds(30), .fit_probability = 1}}},
      4);
  TrialOptions options = {.budget = {.trials = 1}, .repeats = {.confirmed_plans = 1}};
  EXPECT_EQ(RunTrials(chooser, launcher, options).tried.size(), 4u);
  StudyResult result;
  NotePruned(chooser, std::nullopt, result);
  EXPECT_TRUE(Says(result, MakePlanKey(Plan(1)).text + " ran in 1 s"));
}

// The baseline of another program had begun and not ended.
TEST(TrialRepeatsTest, AnotherBaselineIsNotComparedWith) {
  Store store;
  store.open = TinyCandidates()[2];
  FakeLauncher launcher([](const ParallelPlan&) { return After(1); });
  const TrialJournal journal = store.Journal(1'000);
  const StudyResult result = RunStudyOf(Request(kInterleaved), launcher, &journal);
  ASSERT_NE(result.baseline->plan, result.trials.front().plan);
  EXPECT_EQ(result.trials.size(), 6u);
  EXPECT_TRUE(Says(result, kNotCompared));
}

TEST(TrialRepeatsTest, WhatFailsWhenItIsConfirmedIsSaid) {
  std::map<ParallelPlan, int> runs;
  FakeLauncher launcher([&](const ParallelPlan& plan) {
    if (runs[plan]++ % 2 == 1) return TrialOutcome(Crashed());
    return After(Drifting::TrueSeconds(plan));
  });
  EXPECT_TRUE(Says(RunStudyOf(Request({.confirmed_plans = 1}), launcher), "failed in 2 of 4 runs"));
}

TEST(TrialRepeatsTest, ConfirmingKeepsToTheBudgetOfTime) {
  FakeLauncher launcher{Drifting()};
  TrialChooser chooser({{.plan = Plan(1), .estimate = {.step_time = Seconds(1)}},
                        {.plan = Plan(2), .estimate = {.step_time = Seconds(1)}}},
                       4);
  TrialOptions options = {.budget = {.trials = 2, .time = Seconds(250)}, .baseline = 0u};
  options.repeats = {.confirmed_plans = 2};
  const TrialsRun run = RunTrials(chooser, launcher, options);
  EXPECT_EQ(run.tried.size(), 2u);  // of 100 s each; a third is expected to take 130
  EXPECT_EQ(run.summary.stop, TrialStop::kAllTried);
  EXPECT_EQ(run.confirming_limit, TrialStop::kTimeLimit);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
