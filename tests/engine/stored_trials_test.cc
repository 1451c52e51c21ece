#include "server/engine/stored_trials.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <utility>

#include "recorder/call_records.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/engine/engine.h"
#include "server/engine/engine_options.h"
#include "server/engine/queue/quota.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/trial_study.h"
#include "tests/engine/engine_fixture.h"
#include "tests/tuner/fake_launcher.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

std::vector<ParallelPlan> Candidates() {
  std::vector<ParallelPlan> plans;
  for (const int tensor : {2, 4, 8}) {
    for (const int micro_batch : {1, 2}) {
      plans.push_back({.tensor_parallel = tensor,
                       .data_parallel = 8 / tensor,
                       .micro_batch_size = micro_batch,
                       .layers_per_stage = {32}});
    }
  }
  return plans;
}

// Returns a study with trials. The launcher is named by the cluster: "cluster", "replay", or
// "varying", which runs the baseline beside each trial.
StudyRequest Measured(const std::string& launcher) {
  StudyRequest request = SmallStudy();
  request.question.cluster.name = launcher;
  return request;
}

StudyCodec TrialCodec() {
  StudyCodec codec = TestCodec();
  codec.decode_request = [](std::string_view text) -> absl::StatusOr<ResolvedStudy> {
    ASSIGN_OR_RETURN(ResolvedStudy study, TestCodec().decode_request(text));
    StudyRequest& request = study.request;
    request.trials = TrialRequest{.launcher = request.question.cluster.name,
                                  .budget = {.trials = 100, .stop_within = 0}};
    request.trials->repeats.interleaves_baseline = request.question.cluster.name == "varying";
    return study;
  };
  return codec;
}

TrialOutcome OutcomeOn(const ParallelPlan& plan, bool has_memory) {
  if (plan.tensor_parallel == 8 && !has_memory) return OutOfMemory();
  return Ran{.step_time = Seconds(plan.tensor_parallel + 0.1 * plan.micro_batch_size),
             .peak_memory = GiB(60)};
}

// Returns the numbers of the trials that have two attempts.
std::vector<int> NumbersOfTwoAttempts(const Recorder& store, const std::string& id) {
  std::vector<int> numbers;
  const auto page = store.ListTrials({.study_id = id}, TrialOrder::kNumber, 0, "");
  for (const TrialRecord& trial : page->trials) {
    if (store.ListAttempts(id, trial.number)->size() == 2) numbers.push_back(trial.number);
  }
  return numbers;
}

class StoredTrialsTest : public EngineTest {
 protected:
  // The jobs that were submitted and the questions that were asked in one run of a study.
  struct Seen {
    std::vector<ParallelPlan> submitted = {};
    SharedRows history = {};
    std::int64_t history_sequence = 0;
  };

  Engine& StartMeasuring(const StudyQuota& quota = {}) {
    return StartEngine(
        TrialCodec(),
        {.run = [this](const auto& study, const auto& knowledge,
                       const auto& control) { return Run(study, knowledge, control); },
         .on_measurement = [this](const MeasurementRecord& one) { told_.push_back(one.id); },
         .quota = quota});
  }

  absl::StatusOr<StudyAnswer> Run(const ResolvedStudy& study, const Knowledge& knowledge,
                                  const StudyControl& control) {
    const bool is_varying = study.request.trials->repeats.interleaves_baseline;
    FakeLauncher* own = nullptr;
    FakeLauncher launcher([&](const ParallelPlan& plan) {
      if (hangs_ && ++run_count_ == hangs_at_) {
        own->hangs_until_cancelled = true;
        begun_.set_value();
      }
      return is_varying ? After(plan.tensor_parallel) : OutcomeOn(plan, has_memory_);
    });
    own = &launcher;
    seen_.push_back({.history = control.history.read(study.problem).value().rows,
                     .history_sequence = control.history.sequence});
    auto answer =
        RunTrialStudy(Prepare(study, knowledge, control.history).value(),
                      {.candidates = Candidates(), .runs_jobs = is_varying}, launcher, control);
    seen_.back().submitted = launcher.submitted;
    return answer;
  }

  // Runs a study to its end and stops the engine.
  StudyRecord RunToEnd(const StudyRequest& request) {
    StartMeasuring();
    StudyRecord study = Ended(Create(request));
    StopEngine();
    return study;
  }

  // Starts a study in which one job hangs until it is cancelled, by default the first.
  std::string BeginHanging(Engine& engine, const std::string& launcher = "cluster", int job = 1) {
    hangs_ = true;
    hangs_at_ = job;
    const auto study = engine.CreateStudy(ResolvedBy(Measured(launcher)), {});
    EXPECT_TRUE(study.ok()) << study.status();
    begun_.get_future().wait();
    return study->id;
  }

  std::vector<Seen> seen_;
  std::vector<std::string> told_;  // ids of the measurements that the engine's owner was told of
  bool has_memory_ = false;        // also for the plans that fail without it
  bool hangs_ = false;
  int hangs_at_ = 1;
  int run_count_ = 0;
  std::promise<void> begun_;
};

TEST_F(StoredTrialsTest, EndsOfTrialsAreMeasurements) {
  const StudyRecord study = RunToEnd(Measured("cluster"));
  EXPECT_EQ(study.state, StudyState::kSucceeded);
  const Recorder store = OpenStore();
  const auto trials = store.ListTrials({.study_id = study.id}, TrialOrder::kNumber, 0, "");
  ASSERT_TRUE(trials.ok()) << trials.status();
  ASSERT_EQ(trials->trials.size(), 6u);
  const auto page = store.ListMeasurements({}, MeasurementOrder::kNewest, 0, "");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->measurements.size(), 6u);
  std::vector<std::string> stored;
  for (const MeasurementRecord& one : page->measurements) stored.push_back(one.id);
  EXPECT_THAT(told_, testing::UnorderedElementsAreArray(stored));
  for (std::size_t i = 0; i < 6; ++i) {
    const TrialRecord& trial = trials->trials[i];
    const MeasurementRecord& measured = page->measurements[5 - i];  // the newest come first
    EXPECT_EQ(trial.state, TrialState::kEnded);
    EXPECT_EQ(trial.measurement_sequence, measured.sequence);
    EXPECT_EQ(measured.source, MeasurementSource::kTrial);
    EXPECT_EQ(measured.study_id, study.id);
    EXPECT_EQ(measured.plan_digest, trial.plan_digest);
    EXPECT_EQ(measured.outcome, trial.outcome);
    EXPECT_EQ(measured.step_time, trial.step_time);
    EXPECT_EQ(measured.expected.step_time, trial.expected_step_time);
    EXPECT_LT(measured.expected.low, measured.expected.high);
    EXPECT_EQ(measured.question.chip, "nvidia-a100-sxm4-80gb");
    EXPECT_EQ(measured.question.job_fingerprint.size(), 32u);
  }
}

TEST_F(StoredTrialsTest, TheNextStudyLearnsFromThemAndRunsNothingTwice) {
  RunToEnd(Measured("cluster"));
  const StudyRecord second = RunToEnd(Measured("cluster"));
  EXPECT_EQ(second.state, StudyState::kSucceeded);
  ASSERT_EQ(seen_.size(), 2u);
  EXPECT_TRUE(seen_[0].history.empty());
  EXPECT_EQ(seen_[0].history_sequence, 0);
  EXPECT_EQ(seen_[1].history.size(), 6u);
  EXPECT_EQ(seen_[1].history_sequence, 6);
  for (const auto& row : seen_[1].history) EXPECT_NE(row->measurement_id, "");
  EXPECT_EQ(seen_[0].submitted.size(), 6u);
  EXPECT_TRUE(seen_[1].submitted.empty());
  const auto calibrations = OpenStore().ListCalibrations(std::nullopt, 0, "");
  ASSERT_TRUE(calibrations.ok()) << calibrations.status();
  ASSERT_EQ(calibrations->calibrations.size(), 1u);
  EXPECT_EQ(calibrations->calibrations[0].last_sequence, 6);
  EXPECT_EQ(calibrations->calibrations[0].measurement_count, 6);
}

TEST_F(StoredTrialsTest, AReplayTeachesNothingOfTheCluster) {
  RunToEnd(Measured("replay"));
  RunToEnd(Measured("replay"));
  RunToEnd(Measured("cluster"));
  ASSERT_EQ(seen_.size(), 3u);
  for (const Seen& seen : seen_) {
    EXPECT_TRUE(seen.history.empty());
    EXPECT_EQ(seen.submitted.size(), 6u);
  }
  EXPECT_EQ(seen_[2].history_sequence, 12);
  const auto page = OpenStore().ListMeasurements({.sources = {MeasurementSource::kReplay}},
                                                 MeasurementOrder::kNewest, 0, "");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->measurements.size(), 12u);
}

TEST_F(StoredTrialsTest, AStudyGoesOnWithWhatItBeganWith) {
  const std::string id = BeginHanging(StartMeasuring());
  StopEngine();
  ASSERT_EQ(seen_.size(), 1u);
  MeasurementRecord job = {.id = "m-job", .source = MeasurementSource::kJobReport};
  {
    Recorder store = OpenStore();
    const StudyRequest request = Measured("cluster");
    const Problem problem = ResolveProblem(request.question, SharedKnowledge()).value();
    job.question = {.digest = "d",
                    .model_name = problem.model.name,
                    .chip = "nvidia-a100-sxm4-80gb",
                    .framework = problem.profile.name,
                    .question = "cluster"};
    job.plan_key = MakePlanKey(Candidates()[0]).text;
    job.step_time = Seconds(3);
    const auto stored = store.InsertMeasurements({&job, 1});
    ASSERT_TRUE(stored.ok()) << stored.status();
  }
  hangs_ = false;
  StartMeasuring();
  EXPECT_EQ(Ended(id).state, StudyState::kSucceeded);
  EXPECT_EQ(Ended(Create(Measured("cluster"))).state, StudyState::kSucceeded);
  StopEngine();
  ASSERT_EQ(seen_.size(), 3u);
  EXPECT_TRUE(seen_[1].history.empty());
  EXPECT_EQ(seen_[1].submitted.size(), 6u);
  EXPECT_EQ(seen_[2].history.size(), 7u);
  const auto attempts = OpenStore().ListAttempts(id, 1);
  ASSERT_TRUE(attempts.ok()) << attempts.status();
  EXPECT_EQ(attempts->size(), 2u);
}

TEST_F(StoredTrialsTest, ARunToCompareWithIsTakenUpAgain) {
  const std::string id = BeginHanging(StartMeasuring(), "varying", 3);
  StopEngine();
  hangs_ = false;
  StartMeasuring();
  EXPECT_EQ(Ended(id).state, StudyState::kSucceeded);
  StopEngine();
  const Recorder store = OpenStore();
  EXPECT_EQ(store.ListAttempts(id, 3)->size(), 2u);
  const auto trials = store.ListTrials({.study_id = id}, TrialOrder::kNumber, 0, "");
  ASSERT_TRUE(trials.ok()) << trials.status();
  ASSERT_GE(trials->trials.size(), 4u);
  for (std::size_t i = 0; i < trials->trials.size(); ++i) {
    const TrialRecord& trial = trials->trials[i];
    const bool is_reference = i >= 2 && i % 2 == 0;
    EXPECT_EQ(trial.purpose, is_reference ? TrialPurpose::kReference : TrialPurpose::kSearch) << i;
    EXPECT_EQ(trial.plan_digest == trials->trials[0].plan_digest, is_reference || i == 0) << i;
  }
  const auto page = store.ListMeasurements({}, MeasurementOrder::kNewest, 0, "");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->measurements.size(), trials->trials.size());
  for (const MeasurementRecord& measured : page->measurements) {
    const bool is_baseline = measured.plan_digest == trials->trials[0].plan_digest;
    const bool is_repeat = is_baseline && measured.sequence > 1;
    EXPECT_EQ(measured.expected.step_time.has_value(), !is_repeat) << measured.sequence;
  }
}

TEST_F(StoredTrialsTest, ACancelledStudyKeepsItsTrialsAndLeavesNoneOpen) {
  Engine& engine = StartMeasuring();
  const std::string id = BeginHanging(engine);
  ASSERT_TRUE(engine.CancelStudy(id).ok());
  EXPECT_EQ(Ended(id).state, StudyState::kCancelled);
  StopEngine();
  const auto trials = OpenStore().ListTrials({.study_id = id}, TrialOrder::kNumber, 0, "");
  ASSERT_TRUE(trials.ok()) << trials.status();
  ASSERT_EQ(trials->trials.size(), 1u);
  EXPECT_EQ(trials->trials[0].state, TrialState::kEnded);
  EXPECT_EQ(trials->trials[0].outcome, Outcome::kCancelled);
  EXPECT_EQ(trials->trials[0].device_time, Seconds(800));  // 100 s on 8 devices
}

std::string Numbers(const ReopenedStudy& reopened) {
  return fmt::format("{} {}", reopened.study.id, fmt::join(reopened.trial_numbers, " "));
}

TEST_F(StoredTrialsTest, ARetryIsWithinTheQuotaOfItsCreator) {
  const std::string id = RunToEnd(Measured("cluster")).id;
  Engine& engine = StartMeasuring({.open_study_count = 1});
  const std::string open = BeginHanging(engine, "varying");
  EXPECT_EQ(Reason(engine.RetryTrials({.study_id = id}, {}, Numbers).status()), "STUDY_QUOTA");
  EXPECT_EQ(engine.queries().GetStudy(id)->state, StudyState::kSucceeded);
  ASSERT_TRUE(engine.CancelStudy(open).ok());
  Ended(open);
  hangs_ = false;
  EXPECT_TRUE(engine.RetryTrials({.study_id = id}, {}, Numbers).ok());
  Ended(id);
}

TEST_F(StoredTrialsTest, FailedTrialsRunAgainAndTheOthersStay) {
  Engine& engine = StartMeasuring();
  const std::string id = Ended(Create(Measured("cluster"))).id;
  has_memory_ = true;
  EventLog log;
  const std::int64_t end = engine.queries().GetStudy(id)->revision;
  const CallKey call = {.request_id = "again", .method = "RetryTrials"};
  const auto retried = engine.RetryTrials({.study_id = id}, call, Numbers);
  ASSERT_TRUE(retried.ok()) << retried.status();
  ASSERT_TRUE(engine.Subscribe(id, end, log.Sink()).ok());
  ASSERT_TRUE(log.WaitForEnd());
  EXPECT_THAT(log.States(), testing::ElementsAre("queued", "running", "succeeded"));
  // A reader of the whole journal is not stopped by the former end.
  EventLog whole;
  ASSERT_TRUE(engine.Subscribe(id, 0, whole.Sink()).ok());
  ASSERT_TRUE(whole.WaitForEnd());
  EXPECT_THAT(whole.States(), testing::ElementsAre("queued", "running", "succeeded", "queued",
                                                   "running", "succeeded"));
  // The repeated call changes nothing, although nothing has failed any more.
  EXPECT_EQ(engine.RetryTrials({.study_id = id}, call, Numbers).value(), *retried);
  EXPECT_EQ(Reason(engine.RetryTrials({.study_id = id}, {}, Numbers).status()), "NO_FAILED_TRIALS");
  StopEngine();

  ASSERT_EQ(seen_.size(), 2u);
  ASSERT_EQ(seen_[1].submitted.size(), 2u);
  for (const ParallelPlan& plan : seen_[1].submitted) EXPECT_EQ(plan.tensor_parallel, 8);
  const Recorder store = OpenStore();
  const auto trials = store.ListTrials({.study_id = id}, TrialOrder::kNumber, 0, "")->trials;
  ASSERT_EQ(trials.size(), 6u);
  int again = 0;
  for (const TrialRecord& trial : trials) {
    EXPECT_EQ(trial.outcome, Outcome::kOk);
    const std::size_t attempts = store.ListAttempts(id, trial.number)->size();
    again += attempts == 2;
    EXPECT_EQ(trial.device_time, Seconds(800.0 * static_cast<double>(attempts)));
  }
  EXPECT_EQ(again, 2);
  EXPECT_EQ(*retried, fmt::format("{} {}", id, fmt::join(NumbersOfTwoAttempts(store, id), " ")));
  const auto counting =
      store.ListMeasurements({.is_retracted = false}, MeasurementOrder::kNewest, 0, "");
  EXPECT_EQ(counting->measurements.size(), 6u);
  EXPECT_EQ(store.ListMeasurements({}, MeasurementOrder::kNewest, 0, "")->measurements.size(), 8u);
}

TEST_F(StoredTrialsTest, ALostProcessDoublesNoRetry) {
  Engine& engine = StartMeasuring();
  const std::string id = Ended(Create(Measured("cluster"))).id;
  has_memory_ = true;
  hangs_ = true;
  hangs_at_ = run_count_ + 2;  // the second of the two trials that run again
  ASSERT_TRUE(engine.RetryTrials({.study_id = id}, {}, Numbers).ok());
  begun_.get_future().wait();
  StopEngine();
  hangs_ = false;
  StartMeasuring();
  EXPECT_EQ(Ended(id).state, StudyState::kSucceeded);
  StopEngine();
  ASSERT_EQ(seen_.size(), 3u);
  EXPECT_EQ(seen_[1].submitted.size(), 2u);
  EXPECT_EQ(seen_[2].submitted.size(), 1u);
  const Recorder store = OpenStore();
  EXPECT_EQ(store.ListTrials({.study_id = id}, TrialOrder::kNumber, 0, "")->trials.size(), 6u);
  const auto counting =
      store.ListMeasurements({.is_retracted = false}, MeasurementOrder::kNewest, 0, "");
  EXPECT_EQ(counting->measurements.size(), 6u);
}

// It had a result before, and has it still.
TEST_F(StoredTrialsTest, ACancelledRetryLeavesTheFormerResult) {
  Engine& engine = StartMeasuring();
  const std::string id = Ended(Create(Measured("cluster"))).id;
  hangs_ = true;
  hangs_at_ = run_count_ + 1;
  ASSERT_TRUE(engine.RetryTrials({.study_id = id}, {}, Numbers).ok());
  begun_.get_future().wait();
  ASSERT_TRUE(engine.CancelStudy(id).ok());
  EXPECT_EQ(Ended(id).state, StudyState::kCancelled);
  StopEngine();
  const Recorder store = OpenStore();
  int failed = 0;
  const auto page = store.ListTrials({.study_id = id}, TrialOrder::kNumber, 0, "");
  for (const TrialRecord& trial : page->trials) {
    EXPECT_EQ(trial.state, TrialState::kEnded);
    EXPECT_TRUE(trial.measurement_sequence.has_value());
    failed += trial.outcome != Outcome::kOk;
  }
  EXPECT_EQ(failed, 2);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
