#include "server/convert/attempt_wire.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "server/convert/study_wire.h"
#include "server/convert/trial_wire.h"
#include "server/engine/history_queries.h"
#include "tests/convert/full_samples.h"
#include "tests/files/temporary_folder.h"

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

  v1::GetTrialLogsResponse Logs(const v1::GetTrialLogsRequest& request) {
    const auto logs = GetTrialLogs(HistoryQueries(DirectAccess(store_)), request);
    EXPECT_TRUE(logs.ok()) << logs.status();
    return logs.value_or(v1::GetTrialLogsResponse());
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

// A job prints a token, the engine repeats it, and a request states one.
TEST_F(AttemptWireTest, SecretsAreMaskedWhateverIsRead) {
  const std::string token = "hf_aBcDeFgHiJkLmNoPqRsTuVwX";  // 27 bytes, nobody's
  const std::string mask(token.size(), '*');
  v1::TuneRequest request;
  v1::JobTemplate& job = *request.mutable_trials()->mutable_job();
  job.set_folder(testing::TempDir());
  job.add_environment("HUB=" + token);
  job.add_command("--auth=" + token);
  ASSERT_TRUE(store_.InsertStudy({.id = "m", .question = request.SerializeAsString()}).ok());
  const v1::Plan plan;
  const auto begun = store_.BeginTrial(
      {.study_id = "m", .plan_key = "k", .plan_digest = "d", .plan = plan.SerializeAsString()});
  ASSERT_TRUE(begun.ok()) << begun.status();
  const AttemptRecord& attempt = begun->attempt;
  ASSERT_TRUE(
      store_
          .FinishTrial({.study_id = "m",
                        .trial_number = 1,
                        .attempt = {.attempt_id = attempt.id,
                                    .fencing_token = attempt.fencing_token,
                                    .outcome = Outcome::kCrash,
                                    .failure_class = "crash",
                                    .message = "refused " + token,
                                    .log_head = "head " + token + "\n",
                                    .log_tail = "tail " + token,
                                    .quality = {.suspect_reasons = {"was " + token},
                                                .environment = "{\"v\":\"" + token + "\"}"}}})
          .ok());
  const HistoryQueries history(DirectAccess(store_));
  v1::GetTrialRequest trial;
  trial.set_study_id("m");
  trial.set_trial_number(1);
  const auto shown = GetTrial(history, trial);
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->trial().failure_message(), "refused " + mask);
  const auto study = GetStudy(history, "m");
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(study->question().trials().job().environment(0), "HUB=" + mask);
  EXPECT_EQ(study->question().trials().job().command(0), "--auth=" + mask);
  v1::ListTrialsRequest trials;
  trials.set_study_id("m");
  for (const std::string& all :
       {shown->DebugString(), List("m", 1)->DebugString(), List("m", std::nullopt)->DebugString(),
        ListTrials(history, trials)->DebugString(), study->DebugString()}) {
    EXPECT_THAT(all, testing::Not(testing::HasSubstr("aBcDeF")));
  }

  // The store's log, and the file's, which is read in parts that cut the token anywhere.
  v1::GetTrialLogsRequest logs;
  logs.set_study_id("m");
  logs.set_trial_number(1);
  EXPECT_EQ(Logs(logs).text(), "head " + mask + "\ntail " + mask);
  const std::string path = testing::TempDir() + attempt.id + ".out";
  std::ofstream(path) << "before " << token << " after";
  for (int cut = 0; cut <= 40; ++cut) {
    logs.set_offset_bytes(0);
    logs.set_max_bytes(cut + 1);
    const v1::GetTrialLogsResponse first = Logs(logs);
    logs.set_offset_bytes(first.next_offset_bytes());
    logs.set_max_bytes(100);
    EXPECT_EQ(first.text() + Logs(logs).text(), "before " + mask + " after") << cut;
  }
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

TEST_F(AttemptWireTest, ATrialWithItsAttempts) {
  v1::GetTrialRequest request;
  request.set_study_id("s");
  request.set_trial_number(1);
  const HistoryQueries history(DirectAccess(store_));
  EXPECT_EQ(Reason(GetTrial(history, request).status()),
            "STORE_CORRUPT");  // its plan is no message
  ASSERT_TRUE(store_.InsertStudy({.id = "t", .question = "q"}).ok());
  ASSERT_TRUE(store_.BeginTrial({.study_id = "t", .plan_key = "k", .plan_digest = "d"}).ok());
  request.set_study_id("t");
  const auto found = GetTrial(history, request);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->trial().plan_digest(), "d");
  ASSERT_EQ(found->attempts_size(), 1);
  EXPECT_EQ(found->attempts(0).id(), "t-t1-a1");
}

TEST_F(AttemptWireTest, LogsComeFromTheStoreIfNothingElseIsLeft) {
  v1::GetTrialLogsRequest request;
  request.set_study_id("s");
  request.set_trial_number(1);
  const auto whole = Logs(request);
  EXPECT_EQ(whole.attempt_id(), "s-t1-a1");
  EXPECT_EQ(whole.attempt_number(), 1);
  EXPECT_EQ(whole.source(), "store");
  EXPECT_EQ(whole.text(), "beganended");
  EXPECT_EQ(whole.size_bytes(), 10);
  EXPECT_TRUE(whole.is_cut());  // something may stand between the two
  EXPECT_TRUE(whole.has_ended());

  request.set_max_bytes(4);
  EXPECT_EQ(Logs(request).text(), "nded");  // its end
  EXPECT_EQ(Logs(request).offset_bytes(), 6);
  request.set_offset_bytes(0);
  EXPECT_EQ(Logs(request).text(), "bega");
  EXPECT_EQ(Logs(request).next_offset_bytes(), 4);
  request.set_offset_bytes(8);
  EXPECT_EQ(Logs(request).text(), "ed");
  EXPECT_EQ(Logs(request).next_offset_bytes(), 10);
  request.set_offset_bytes(10);
  EXPECT_EQ(Logs(request).text(), "");
  request.set_offset_bytes(1'000);  // behind its end
  EXPECT_EQ(Logs(request).next_offset_bytes(), 10);
  request.set_offset_bytes(-5);
  EXPECT_EQ(Logs(request).text(), "ende");
  request.set_offset_bytes(std::numeric_limits<std::int64_t>::min());  // before its beginning
  EXPECT_EQ(Logs(request).text(), "bega");
}

// The file has what the store has not.
TEST_F(AttemptWireTest, LogsComeFromTheFolderOfTheJobs) {
  const TemporaryFolder folder;
  v1::TuneRequest question;
  question.mutable_trials()->mutable_job()->set_folder(folder.path());
  ASSERT_TRUE(store_.InsertStudy({.id = "r", .question = question.SerializeAsString()}).ok());
  const auto begun =
      store_.BeginTrial({.study_id = "r", .plan_key = "k", .plan_digest = "d", .plan = "p"});
  ASSERT_TRUE(begun.ok()) << begun.status();
  v1::GetTrialLogsRequest request;
  request.set_study_id("r");
  request.set_trial_number(1);
  EXPECT_EQ(Logs(request).source(), "none");
  EXPECT_FALSE(Logs(request).has_ended());

  std::ofstream(folder.File("r-t1-a1.log")) << "of the job\n";
  EXPECT_EQ(Logs(request).source(), "file");
  EXPECT_EQ(Logs(request).text(), "of the job\n");
  // The harness masks what it writes, so its file comes first.
  std::ofstream(folder.File("r-t1-a1.out")) << "step \x1b[1m1 \xff 日本\n";
  EXPECT_EQ(Logs(request).text(), "step  [1m1 ? 日本\n");
  EXPECT_EQ(Logs(request).size_bytes(), 20);
  EXPECT_FALSE(Logs(request).is_cut());

  // "日" is bytes 13 to 15. No part begins or ends within it, and the parts make up the whole.
  std::string joined;
  request.set_max_bytes(5);
  request.set_offset_bytes(0);
  for (int part = 0; part < 20; ++part) {
    const v1::GetTrialLogsResponse log = Logs(request);
    joined += log.text();
    if (log.next_offset_bytes() == log.size_bytes()) break;
    EXPECT_GT(log.next_offset_bytes(), request.offset_bytes());
    request.set_offset_bytes(log.next_offset_bytes());
  }
  EXPECT_EQ(joined, "step  [1m1 ? 日本\n");
  request.set_offset_bytes(14);
  EXPECT_EQ(Logs(request).offset_bytes(), 16);
  EXPECT_EQ(Logs(request).text(), "本");

  // Links could show what only the server may read.
  std::filesystem::remove(folder.File("r-t1-a1.log"));
  std::filesystem::rename(folder.File("r-t1-a1.out"), folder.File("elsewhere"));
  std::filesystem::create_symlink(folder.File("elsewhere"), folder.File("r-t1-a1.out"));
  EXPECT_EQ(Logs(request).source(), "none");
  // A pipe that nobody writes to must not hold up the server.
  std::filesystem::remove(folder.File("r-t1-a1.out"));
  ASSERT_EQ(mkfifo(folder.File("r-t1-a1.out").c_str(), 0600), 0);
  EXPECT_EQ(Logs(request).source(), "none");
}

TEST_F(AttemptWireTest, MistakesOfALogRequestAreNamed) {
  v1::GetTrialLogsRequest request;
  request.set_study_id("s");
  request.set_attempt_number(0);
  request.set_max_bytes(1'048'577);
  const HistoryQueries history(DirectAccess(store_));
  std::vector<std::string> fields;
  for (const auto& violation : FieldViolations(GetTrialLogs(history, request).status())) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, testing::ElementsAre("trial_number", "attempt_number", "max_bytes"));
  request.set_trial_number(1);
  request.set_attempt_number(2);
  request.set_max_bytes(1'048'576);
  EXPECT_EQ(Reason(GetTrialLogs(history, request).status()), "UNKNOWN_ATTEMPT");
  request.set_trial_number(2);
  EXPECT_EQ(Reason(GetTrialLogs(history, request).status()), "UNKNOWN_TRIAL");
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
