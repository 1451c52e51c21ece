#include "server/convert/trial_wire.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "meshwright/v1/problem.pb.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "server/engine/history_queries.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;

std::string PlanBytes(int tensor_parallel) {
  v1::Plan plan;
  plan.set_tensor_parallel(tensor_parallel);
  return plan.SerializeAsString();
}

// A study with four trials: 3 s, out of memory, 2 s, and one that runs.
class TrialWireTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(store_.InsertStudy({.id = "s", .question = "q"}).ok());
    End(Begin(1), Seconds(3));
    const BegunTrial lost = Begin(2);
    ASSERT_TRUE(store_
                    .FinishTrial({.study_id = "s",
                                  .trial_number = lost.trial.number,
                                  .attempt = {.attempt_id = lost.attempt.id,
                                              .fencing_token = lost.attempt.fencing_token,
                                              .outcome = Outcome::kOom,
                                              .failure_class = "oom_device",
                                              .message = "CUDA out of memory",
                                              .time_ms = 2000}})
                    .ok());
    End(Begin(3), Seconds(2));
    Begin(4);
  }

  BegunTrial Begin(int tensor_parallel) {
    const auto begun = store_.BeginTrial({.study_id = "s",
                                          .plan_key = fmt::format("key {}", tensor_parallel),
                                          .plan_digest = fmt::format("digest{}", tensor_parallel),
                                          .plan = PlanBytes(tensor_parallel),
                                          .expected_step_time = Seconds(1.5),
                                          .success_probability = 0.75,
                                          .launcher = "local",
                                          .time_ms = 1000});
    EXPECT_TRUE(begun.ok()) << begun.status();
    return *begun;
  }

  void End(const BegunTrial& begun, Seconds step_time) {
    MeasurementRecord measurement = {.id = fmt::format("m-{}", begun.trial.number),
                                     .source = MeasurementSource::kTrial,
                                     .question = {.digest = "q", .question = "q"},
                                     .study_id = "s",
                                     .plan_key = begun.trial.plan_key,
                                     .plan_digest = begun.trial.plan_digest,
                                     .step_time = step_time};
    const auto ended = store_.FinishTrial({.study_id = "s",
                                           .trial_number = begun.trial.number,
                                           .attempt = {.attempt_id = begun.attempt.id,
                                                       .fencing_token = begun.attempt.fencing_token,
                                                       .device_time = Seconds(80),
                                                       .time_ms = 2000},
                                           .step_time = step_time,
                                           .peak_memory = Bytes{42},
                                           .measurement = measurement});
    EXPECT_TRUE(ended.ok()) << ended.status();
  }

  static std::vector<int> Numbers(const v1::ListTrialsResponse& trials) {
    std::vector<int> numbers;
    for (const v1::Trial& trial : trials.trials()) numbers.push_back(trial.number());
    return numbers;
  }

  std::vector<int> Numbers(const v1::ListTrialsRequest& request) {
    const auto trials = ListTrials(HistoryQueries(DirectAccess(store_)), request);
    EXPECT_TRUE(trials.ok()) << trials.status();
    return trials.ok() ? Numbers(*trials) : std::vector<int>();
  }

  static v1::ListTrialsRequest Request() {
    v1::ListTrialsRequest request;
    request.set_study_id("s");
    return request;
  }

  Recorder store_ = Recorder::Open({.path = ":memory:"}).value();
};

TEST_F(TrialWireTest, EveryFieldOfATrial) {
  const auto listed = ListTrials(HistoryQueries(DirectAccess(store_)), Request());
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->trials_size(), 4);
  const v1::Trial& ran = listed->trials(0);
  EXPECT_EQ(ran.plan().tensor_parallel(), 1);
  EXPECT_EQ(ran.plan_digest(), "digest1");
  EXPECT_EQ(ran.outcome(), "ok");
  EXPECT_EQ(ran.step_time_seconds(), 3);
  EXPECT_EQ(ran.peak_memory_bytes(), 42);
  EXPECT_EQ(ran.expected_step_time_seconds(), 1.5);
  EXPECT_EQ(ran.success_probability_ratio(), 0.75);
  EXPECT_EQ(ran.device_seconds(), 80);
  EXPECT_EQ(ran.purpose(), "search");
  EXPECT_EQ(ran.number(), 1);
  EXPECT_EQ(ran.state(), "ended");
  EXPECT_EQ(ran.start_time(), "1970-01-01T00:00:01.000Z");
  EXPECT_EQ(ran.end_time(), "1970-01-01T00:00:02.000Z");
  EXPECT_EQ(ran.measurement_sequence(), 1);
  EXPECT_EQ(ran.failure_class(), "");
  const v1::Trial& lost = listed->trials(1);
  EXPECT_EQ(lost.outcome(), "oom");
  EXPECT_EQ(lost.failure_class(), "oom_device");
  EXPECT_EQ(lost.failure_message(), "CUDA out of memory");
  EXPECT_FALSE(lost.has_measurement_sequence());
  const v1::Trial& open = listed->trials(3);
  EXPECT_EQ(open.state(), "open");
  EXPECT_EQ(open.outcome(), "");
  EXPECT_FALSE(open.has_end_time());
}

TEST_F(TrialWireTest, PagesFiltersAndOrders) {
  v1::ListTrialsRequest request = Request();
  request.set_page_size(3);
  const auto first = ListTrials(HistoryQueries(DirectAccess(store_)), request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(Numbers(*first), ElementsAre(1, 2, 3));
  request.set_page_token(first->next_page_token());
  EXPECT_THAT(Numbers(request), ElementsAre(4));

  request = Request();
  request.set_order("fastest");
  EXPECT_THAT(Numbers(request), ElementsAre(3, 1));
  request = Request();
  request.set_outcome("oom");
  EXPECT_THAT(Numbers(request), ElementsAre(2));
  request = Request();
  request.set_state("open");
  EXPECT_THAT(Numbers(request), ElementsAre(4));
}

TEST_F(TrialWireTest, WhatThereIsNot) {
  v1::ListTrialsRequest request;
  request.set_study_id("none");
  EXPECT_EQ(Reason(ListTrials(HistoryQueries(DirectAccess(store_)), request).status()),
            "UNKNOWN_STUDY");
  request = Request();
  request.set_order("slowest");
  request.set_state("late");
  const auto found =
      FieldViolations(ListTrials(HistoryQueries(DirectAccess(store_)), request).status());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].field, "state");
  EXPECT_EQ(found[0].description, "\"late\"; must be one of open, ended");
  EXPECT_EQ(found[1].field, "order");
  EXPECT_EQ(found[1].description, "\"slowest\"; must be one of begun, fastest");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
