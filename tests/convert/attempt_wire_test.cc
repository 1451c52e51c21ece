#include "server/convert/attempt_wire.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "server/engine/history_queries.h"
#include "tests/convert/full_samples.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// A study with one trial, whose only attempt ran and crashed.
class AttemptWireTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(store_.InsertStudy({.id = "s", .question = "q"}).ok());
    const auto begun = store_.BeginTrial({.study_id = "s",
                                          .plan_key = "key",
                                          .plan_digest = "digest",
                                          .plan = "plan",
                                          .expected_step_time = Seconds(1),
                                          .launcher = "slurm"});
    ASSERT_TRUE(begun.ok()) << begun.status();
    const AttemptRecord& attempt = begun->attempt;
    for (const AttemptState state : {AttemptState::kSubmitted, AttemptState::kRunning}) {
      ASSERT_TRUE(store_
                      .UpdateAttempt({.attempt_id = attempt.id,
                                      .fencing_token = attempt.fencing_token,
                                      .state = state,
                                      .external_id = "17",
                                      .time_ms = 1000})
                      .ok());
    }
    ASSERT_TRUE(store_
                    .FinishAttempt({.attempt_id = attempt.id,
                                    .fencing_token = attempt.fencing_token,
                                    .outcome = Outcome::kCrash,
                                    .failure_class = "numeric",
                                    .message = "the loss is not a number",
                                    .device_time = Seconds(8),
                                    .log_head = "began",
                                    .log_tail = "ended",
                                    .nodes = {"n1", "n2"},
                                    .quality = {.step_count = 12,
                                                .step_time_low = Seconds(0.9),
                                                .step_time_high = Seconds(1.1),
                                                .spread_ratio = 0.07,
                                                .suspect_reasons = {"drift: slower"},
                                                .environment = "{}",
                                                .environment_digest = "abc"},
                                    .time_ms = 2000})
                    .ok());
  }

  absl::StatusOr<v1::ListAttemptsResponse> List(const std::string& study,
                                                std::optional<int> trial) {
    v1::ListAttemptsRequest request;
    request.set_study_id(study);
    if (trial.has_value()) request.set_trial_number(*trial);
    return ListAttempts(HistoryQueries(DirectAccess(store_)), request);
  }

  Recorder store_ = Recorder::Open({.path = ":memory:"}).value();
};

TEST_F(AttemptWireTest, EveryFieldIsSetOfATrial) {
  const auto listed = List("s", 1);
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_THAT(UnsetFields(*listed),
              testing::ElementsAre("meshwright.v1.Attempt.harness_state",
                                   "meshwright.v1.Attempt.harness_step_count"));
  const v1::Attempt& attempt = listed->attempts(0);
  EXPECT_EQ(attempt.id(), "s-t1-a1");
  EXPECT_EQ(attempt.outcome(), "crash");
  EXPECT_THAT(attempt.nodes(), testing::ElementsAre("n1", "n2"));
  EXPECT_EQ(attempt.start_time(), "1970-01-01T00:00:01.000Z");
}

// Shows what the harness of a running attempt has written by now, in the folder of the study's job.
TEST_F(AttemptWireTest, HowFarARunningOneHasCome) {
  v1::TuneRequest request;
  request.mutable_trials()->mutable_job()->set_folder(testing::TempDir());
  ASSERT_TRUE(store_.InsertStudy({.id = "r", .question = request.SerializeAsString()}).ok());
  const auto begun =
      store_.BeginTrial({.study_id = "r", .plan_key = "k", .plan_digest = "d", .plan = "p"});
  ASSERT_TRUE(begun.ok()) << begun.status();
  const AttemptRecord& attempt = begun->attempt;
  const std::string path = testing::TempDir() + attempt.id + ".progress.jsonl";
  std::ofstream(path) << fmt::format(R"({{"token":{},"state":"MEASURING","steps":12}})",
                                     attempt.fencing_token)
                      << '\n';
  EXPECT_EQ(List("r", 1)->attempts(0).harness_state(), "");
  ASSERT_TRUE(store_
                  .UpdateAttempt({.attempt_id = attempt.id,
                                  .fencing_token = attempt.fencing_token,
                                  .state = AttemptState::kRunning})
                  .ok());
  const auto listed = List("r", std::nullopt);
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->attempts(0).harness_state(), "measuring");
  EXPECT_EQ(listed->attempts(0).harness_step_count(), 12);
  std::filesystem::remove(path);
}

TEST_F(AttemptWireTest, LogsAreOfOneTrialAlone) {
  const auto listed = List("s", std::nullopt);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->attempts_size(), 1);
  EXPECT_EQ(listed->attempts(0).message(), "the loss is not a number");
  EXPECT_EQ(listed->attempts(0).log_head() + listed->attempts(0).log_tail(), "");
  EXPECT_EQ(listed->attempts(0).environment(), "");
  EXPECT_THAT(listed->attempts(0).suspect_reasons(), testing::ElementsAre("drift: slower"));
}

TEST_F(AttemptWireTest, WhatThereIsNot) {
  EXPECT_EQ(Reason(List("none", std::nullopt).status()), "UNKNOWN_STUDY");
  EXPECT_EQ(Reason(List("s", 2).status()), "UNKNOWN_TRIAL");
  const auto bad = FieldViolations(List("s", 0).status());
  ASSERT_EQ(bad.size(), 1U);
  EXPECT_EQ(bad[0].field, "trial_number");
  EXPECT_EQ(bad[0].description, "0; must be >= 1");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
