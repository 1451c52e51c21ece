#include "server/tuner/question/trial_journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/trial_study.h"
#include "tests/tuner/fake_launcher.h"
#include "tests/tuner/prepared.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// The records that a store keeps of a study's trials.
struct Kept {
  std::vector<TriedPlan> ended = {};
  std::optional<ParallelPlan> open = {};
};

// Writes into `kept` until this many calls have been made; then every call fails, as if the process
// had been lost there.
TrialJournal JournalOn(Kept& kept, int calls) {
  const auto left = std::make_shared<int>(calls);
  const auto take = [left]() -> absl::Status {
    if (*left == 0) return absl::UnavailableError("the process is lost");
    --*left;
    return absl::OkStatus();
  };
  return {.ended = kept.ended,
          .open = kept.open,
          .begin =
              [&kept, take](const ExpectedTrial& expected) {
                EXPECT_EQ(expected.number, std::ssize(kept.ended) + 1);
                EXPECT_LT(expected.step_time_low, expected.step_time);
                EXPECT_LT(expected.step_time, expected.step_time_high);
                const absl::Status taken = take();
                if (taken.ok()) kept.open = expected.plan;
                return taken;
              },
          .end =
              [&kept, take](int number, const TriedPlan& tried) {
                EXPECT_EQ(number, std::ssize(kept.ended) + 1);
                EXPECT_EQ(tried.plan, *kept.open);
                const absl::Status taken = take();
                if (taken.ok()) {
                  kept.ended.push_back(tried);
                  kept.open.reset();
                }
                return taken;
              }};
}

// Every kind of outcome, so that what each teaches must be learnt again.
TrialOutcome OutcomeOn(const ParallelPlan& plan) {
  const int key = plan.tensor_parallel * 8 + plan.pipeline_parallel * 3 + plan.micro_batch_size;
  if (plan.tensor_parallel == 4) return Crashed();
  if (plan.micro_batch_size == 4) return OutOfMemory();
  if (key % 7 == 0) return TimedOut();
  return Ran{.step_time = Seconds(0.2 + 0.01 * key), .peak_memory = GiB(2.0 + 0.1 * key)};
}

StudyRequest Request() {
  StudyRequest request = {.question = TinyQuestion()};
  // Ends by device time, so that the budget must be counted from where it was.
  request.trials =
      TrialRequest{.budget = {.trials = 100, .device_time = Seconds(2900), .stop_within = 0}};
  return request;
}

StudyResult RunWith(const TrialJournal* journal, FakeLauncher& launcher) {
  const auto answer =
      RunTrialStudy(Prepared(Request()), {.candidates = TinyCandidates(), .runs_jobs = true},
                    launcher, {.trials = journal});
  return std::get<StudyResult>(answer.value());
}

void ExpectSame(const StudyResult& a, const StudyResult& b) {
  ASSERT_EQ(a.trials.size(), b.trials.size());
  for (std::size_t i = 0; i < a.trials.size(); ++i) {
    EXPECT_EQ(a.trials[i].plan, b.trials[i].plan) << i;
    EXPECT_EQ(a.trials[i].outcome, b.trials[i].outcome) << i;
    EXPECT_EQ(a.trials[i].expected_step_time, b.trials[i].expected_step_time) << i;
    EXPECT_EQ(a.trials[i].success_probability, b.trials[i].success_probability) << i;
  }
  ASSERT_EQ(a.plans.size(), b.plans.size());
  for (std::size_t i = 0; i < a.plans.size(); ++i) {
    EXPECT_EQ(a.plans[i].plan, b.plans[i].plan) << i;
    EXPECT_EQ(a.plans[i].estimate.step_time, b.plans[i].estimate.step_time) << i;
  }
  EXPECT_EQ(a.trial_summary->stop, b.trial_summary->stop);
  EXPECT_EQ(a.trial_summary->time, b.trial_summary->time);
  EXPECT_EQ(a.trial_summary->device_time, b.trial_summary->device_time);
  EXPECT_EQ(a.trial_summary->remaining_gain, b.trial_summary->remaining_gain);
  EXPECT_EQ(a.baseline.has_value(), b.baseline.has_value());
  EXPECT_EQ(a.warnings, b.warnings);
}

TEST(TrialJournalTest, AStudyThatWasLostAnywhereEndsAsOneThatWasNot) {
  FakeLauncher undisturbed(OutcomeOn);
  const StudyResult whole = RunWith(nullptr, undisturbed);
  ASSERT_GE(whole.trials.size(), 5u);
  ASSERT_EQ(whole.trial_summary->stop, TrialStop::kDeviceTimeLimit);
  // Two calls a trial: lost before a trial is written down, and before its end is.
  const int calls = 2 * static_cast<int>(whole.trials.size());
  for (int first = 0; first < calls; ++first) {
    for (const int second : {1, 3, calls}) {
      SCOPED_TRACE(testing::Message() << "lost after " << first << " calls, then " << second);
      Kept kept;
      FakeLauncher launcher(OutcomeOn);
      for (const int limit : {first, second}) {
        const TrialJournal journal = JournalOn(kept, limit);
        const auto lost =
            RunTrialStudy(Prepared(Request()), {.candidates = TinyCandidates(), .runs_jobs = true},
                          launcher, {.trials = &journal});
        if (lost.ok()) continue;
        EXPECT_EQ(lost.status().message(), "the process is lost");
      }
      const std::size_t before = kept.ended.size();
      FakeLauncher resumed(OutcomeOn);
      const TrialJournal journal = JournalOn(kept, 1000);
      ExpectSame(RunWith(&journal, resumed), whole);
      EXPECT_EQ(resumed.submitted.size(), whole.trials.size() - before);
      for (std::size_t i = 0; i < before; ++i) {
        EXPECT_FALSE(std::ranges::count(resumed.submitted, kept.ended[i].plan)) << "run twice";
      }
    }
  }
}

TEST(TrialJournalTest, AStoreThatFailsEndsTheTrialsWithWhatWasMeasured) {
  Kept kept;
  FakeLauncher launcher(OutcomeOn);
  const TrialJournal journal = JournalOn(kept, 3);
  const StudyResult result = RunWith(&journal, launcher);
  EXPECT_EQ(result.trial_summary->stop, TrialStop::kStoreFailed);
  EXPECT_EQ(result.trials.size(), 2u);
  EXPECT_TRUE(std::ranges::count(result.warnings, "the store failed: the process is lost"));
}

TEST(TrialJournalTest, TheCalibrationIsKeptBeforeTheFirstTrial) {
  StudyRequest request = Request();
  request.history = {
      {.question = TinyQuestion(), .plan = {.tensor_parallel = 2}, .step_time = Seconds(1)}};
  std::vector<std::string> calls;
  const TrialJournal journal = {.learnt =
                                    [&](const std::optional<CalibrationReport>& report) {
                                      calls.push_back(report.value().id);
                                      return absl::OkStatus();
                                    },
                                .begin =
                                    [&](const ExpectedTrial&) {
                                      calls.emplace_back("begin");
                                      return absl::OkStatus();
                                    }};
  FakeLauncher launcher(OutcomeOn);
  const auto answer = RunTrialStudy(Prepared(request), {.candidates = TinyCandidates()}, launcher,
                                    {.trials = &journal});
  const auto& result = std::get<StudyResult>(answer.value());
  ASSERT_GE(calls.size(), 2u);
  EXPECT_EQ(calls[0], result.calibration->id);
  EXPECT_EQ(calls[1], "begin");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
