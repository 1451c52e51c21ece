// The calls that views of studies read, over a socket, from a store in a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "meshwright/v1/service.pb.h"
#include "meshwright/v1/trial.pb.h"
#include "recorder/recorder.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/convert/convert.h"
#include "server/engine/engine.h"
#include "server/rpc/client/client.h"
#include "server/rpc/server.h"
#include "tests/files/temporary_folder.h"
#include "tests/rpc/questions.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

TEST_F(ServerTest, APlanOfAStudyHasItsExports) {
  v1::RecommendRequest asked;
  *asked.mutable_question() = SmallQuestion();
  asked.mutable_question()->mutable_workload()->mutable_framework()->set_name("megatron-core");
  const auto answer = client().Recommend(asked);
  ASSERT_TRUE(answer.ok()) << answer.status();
  v1::GetPlanRequest request;
  request.set_study_id(answer->study_id());
  request.set_rank(1);
  const auto found = client().GetPlan(request);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->plan().rank(), 1);
  EXPECT_EQ(found->plan().state(), "estimated");
  EXPECT_FALSE(found->plan().exports().empty());
  v1::RankedPlan plan = found->plan();
  plan.clear_rank();
  plan.clear_state();
  EXPECT_EQ(plan.DebugString(), answer->result().plans(0).DebugString());

  request.set_rank(6);
  const absl::Status absent = client().GetPlan(request).status();
  EXPECT_EQ(Reason(absent), "UNKNOWN_PLAN");
  EXPECT_THAT(std::string(absent.message()), HasSubstr("it has plans 0 to 5"));
  request.set_study_id("none");
  EXPECT_EQ(Reason(client().GetPlan(request).status()), "UNKNOWN_STUDY");
}

TEST_F(ServerTest, TheBasicViewOfPlansLeavesOutWhatIsLong) {
  v1::RecommendRequest asked;
  *asked.mutable_question() = SmallQuestion();
  const auto answer = client().Recommend(asked);
  ASSERT_TRUE(answer.ok()) << answer.status();
  v1::ListPlansRequest request;
  request.set_study_id(answer->study_id());
  const auto full = client().ListPlans(request);
  ASSERT_TRUE(full.ok()) << full.status();
  request.set_view("full");
  EXPECT_EQ(client().ListPlans(request)->DebugString(), full->DebugString());
  request.set_view("basic");
  const auto basic = client().ListPlans(request);
  ASSERT_TRUE(basic.ok()) << basic.status();
  ASSERT_EQ(basic->plans_size(), full->plans_size());
  const v1::RankedPlan& plan = basic->plans(1);
  EXPECT_EQ(plan.plan_digest(), full->plans(1).plan_digest());
  EXPECT_EQ(plan.plan().DebugString(), full->plans(1).plan().DebugString());
  EXPECT_EQ(plan.estimate().step_time_low_seconds(),
            full->plans(1).estimate().step_time_low_seconds());
  EXPECT_EQ(plan.estimate().peak_memory_bytes(), full->plans(1).estimate().peak_memory_bytes());
  EXPECT_TRUE(plan.estimate().breakdown_seconds().empty());
  EXPECT_LT(2 * basic->ByteSizeLong(), full->ByteSizeLong());
  request.set_view("BASIC");
  EXPECT_THAT(std::string(client().ListPlans(request).status().message()),
              HasSubstr("\"BASIC\"; must be one of basic, full"));
}

TEST_F(ServerTest, AnUnrecordedAnswerIsTheSameAndLeavesNothing) {
  v1::RecommendRequest request;
  *request.mutable_question() = SmallQuestion();
  request.set_is_unrecorded(true);
  const auto unrecorded = client().Recommend(request);
  ASSERT_TRUE(unrecorded.ok()) << unrecorded.status();
  EXPECT_EQ(unrecorded->study_id(), "");
  EXPECT_EQ(client().ListStudies({})->studies_size(), 0);
  request.set_is_unrecorded(false);
  const auto recorded = client().Recommend(request);
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_EQ(unrecorded->result().plans(0).DebugString(), recorded->result().plans(0).DebugString());
}

double Sum(const google::protobuf::Map<std::string, double>& terms) {
  double sum = 0;
  for (const auto& [term, seconds] : terms) sum += seconds;
  return sum;
}

// The interval of the ratio and the probability say the same: the logarithm of the ratio is normal,
// its central 80 % end 1.2816 standard deviations from the middle, and the probability that the
// first is faster is that the ratio is above 1.
void ExpectConsistent(const v1::PlanComparison& comparison) {
  const double first = comparison.first().step_time_seconds();
  const double second = comparison.second().step_time_seconds();
  EXPECT_DOUBLE_EQ(comparison.step_time_difference_seconds(), second - first);
  EXPECT_NEAR(Sum(comparison.breakdown_difference_seconds()), second - first, 1e-9);
  const double low = comparison.step_time_ratio_low();
  const double high = comparison.step_time_ratio_high();
  EXPECT_LT(low, second / first);
  EXPECT_GT(high, second / first);
  EXPECT_NEAR(std::sqrt(low * high), second / first, 1e-12);
  EXPECT_DOUBLE_EQ(comparison.step_time_difference_low_seconds(), first * (low - 1));
  EXPECT_DOUBLE_EQ(comparison.step_time_difference_high_seconds(), first * (high - 1));
  const double sigma = std::log(high / low) / (2 * 1.2815515655446004);
  const double faster = 0.5 * std::erfc(-std::log(second / first) / sigma / std::sqrt(2.0));
  EXPECT_NEAR(comparison.first_is_faster_probability_ratio(), faster, 1e-9);
}

TEST_F(ServerTest, TwoPlansOfAStudyAreComparedAsItEstimatedThem) {
  v1::RecommendRequest asked;
  *asked.mutable_question() = SmallQuestion();
  const auto answer = client().Recommend(asked);
  ASSERT_TRUE(answer.ok()) << answer.status();
  v1::CompareStudyPlansRequest request;
  request.set_study_id(answer->study_id());
  const auto compared = client().CompareStudyPlans(request);
  ASSERT_TRUE(compared.ok()) << compared.status();
  EXPECT_EQ(compared->comparison().first().step_time_seconds(),
            answer->result().plans(0).estimate().step_time_seconds());
  EXPECT_EQ(compared->comparison().second().step_time_seconds(),
            answer->result().plans(1).estimate().step_time_seconds());
  ExpectConsistent(compared->comparison());

  // The same two plans, stated with the question.
  v1::ComparePlansRequest stated;
  *stated.mutable_question() = SmallQuestion();
  *stated.mutable_first_plan() = answer->result().plans(0).plan();
  *stated.mutable_second_plan() = answer->result().plans(1).plan();
  const auto same = client().ComparePlans(stated);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->DebugString(), compared->DebugString());

  request.set_first_rank(0);
  request.set_second_rank(0);
  const auto with_itself = client().CompareStudyPlans(request);
  ASSERT_TRUE(with_itself.ok()) << with_itself.status();
  EXPECT_EQ(with_itself->comparison().step_time_difference_seconds(), 0);
  EXPECT_DOUBLE_EQ(with_itself->comparison().first_is_faster_probability_ratio(), 0.5);

  request.set_second_rank(-1);
  EXPECT_EQ(Reason(client().CompareStudyPlans(request).status()), "UNKNOWN_PLAN");
  request.set_study_id("none");
  EXPECT_EQ(Reason(client().CompareStudyPlans(request).status()), "UNKNOWN_STUDY");
}

TEST_F(ServerTest, MistakesOfBothComparedPlansAreNamed) {
  v1::ComparePlansRequest request;
  *request.mutable_question() = SmallQuestion();
  request.mutable_question()->mutable_workload()->clear_sequence_length();
  std::vector<std::string> fields;
  const auto names = [&fields](const absl::Status& status) {
    fields.clear();
    for (const FieldViolation& violation : FieldViolations(status)) {
      fields.push_back(violation.field);
    }
    return fields;
  };
  EXPECT_THAT(names(client().ComparePlans(request).status()),
              UnorderedElementsAre("first_plan", "second_plan", "workload.sequence_length"));
  *request.mutable_question() = SmallQuestion();
  request.mutable_first_plan()->set_tensor_parallel(0);
  request.mutable_second_plan()->set_tensor_parallel(3);
  const absl::Status status = client().ComparePlans(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(names(status), testing::Contains(testing::StartsWith("first_plan.")));
  EXPECT_THAT(names(status), testing::Contains(testing::StartsWith("second_plan.")));
}

// A server on a store that has a study with three measured trials: fast and large, slow and small,
// and one that both beat.
class StoredTrialsTest : public testing::Test {
 protected:
  void SetUp() override {
    Fill();
    auto recorder = Recorder::Open({.path = folder_.File("history.db")});
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    engine_ = *Engine::Start(*std::move(recorder), Known(), ProtobufCodec(Known()));
    server_ = *Server::Start({.listen = "127.0.0.1:0"}, Known(), *engine_);
    client_ = std::make_unique<Client>(*Client::Connect(server_->address()));
  }

  void Fill() {
    auto recorder = Recorder::Open({.path = folder_.File("history.db")});
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    ASSERT_TRUE(recorder->InsertStudy({.id = "s"}).ok());
    AddTrial(*recorder, Seconds(1), GiB(40));
    AddTrial(*recorder, Seconds(2), GiB(50));
    AddTrial(*recorder, Seconds(3), GiB(20));
    ASSERT_TRUE(recorder->FinishStudy({.study_id = "s", .time_ms = 9, .outcome = "improved"}).ok());
  }

  static void AddTrial(Recorder& recorder, Seconds step_time, Bytes memory) {
    const std::string digest = "d" + std::to_string(step_time.count());
    const auto begun =
        recorder.BeginTrial({.study_id = "s", .plan_key = digest, .plan_digest = digest});
    ASSERT_TRUE(begun.ok()) << begun.status();
    ASSERT_TRUE(recorder
                    .FinishTrial({.study_id = "s",
                                  .trial_number = begun->trial.number,
                                  .attempt = {.attempt_id = begun->attempt.id,
                                              .fencing_token = begun->attempt.fencing_token,
                                              .log_head = "printed"},
                                  .step_time = step_time,
                                  .peak_memory = memory})
                    .ok());
  }

  TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(StoredTrialsTest, AreReadOneByOne) {
  v1::GetTrialRequest request;
  request.set_study_id("s");
  request.set_trial_number(3);
  const auto found = client_->GetTrial(request);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->trial().step_time_seconds(), 3);
  ASSERT_EQ(found->attempts_size(), 1);
  EXPECT_EQ(found->attempts(0).log_head(), "");
  request.set_trial_number(4);
  EXPECT_EQ(Reason(client_->GetTrial(request).status()), "UNKNOWN_TRIAL");

  v1::GetTrialLogsRequest logs;
  logs.set_study_id("s");
  logs.set_trial_number(3);
  const auto log = client_->GetTrialLogs(logs);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(log->text(), "printed");
  EXPECT_EQ(log->source(), "store");
  EXPECT_FALSE(log->is_cut());
}

TEST_F(StoredTrialsTest, HaveAFrontAndFilters) {
  v1::ListParetoTrialsRequest request;
  request.set_study_id("s");
  request.set_page_size(1);
  const auto first = client_->ListParetoTrials(request);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->trials_size(), 1);
  EXPECT_EQ(first->trials(0).number(), 1);
  request.set_page_token(first->next_page_token());
  const auto second = client_->ListParetoTrials(request);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ(second->trials_size(), 1);
  EXPECT_EQ(second->trials(0).number(), 3);
  EXPECT_EQ(second->next_page_token(), "");

  v1::ListTrialsRequest list;
  list.set_study_id("s");
  list.set_plan_digest(first->trials(0).plan_digest());
  EXPECT_EQ(client_->ListTrials(list)->trials_size(), 1);
  list.set_purpose("confirm");
  EXPECT_EQ(client_->ListTrials(list)->trials_size(), 0);
  list.set_purpose("fun");
  EXPECT_THAT(std::string(client_->ListTrials(list).status().message()),
              HasSubstr("must be one of search, reference, confirm"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
