// Tests that equal questions are searched and recorded once, and that no answer is given again
// after something that it could learn from has come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "server/convert/question_answers.h"
#include "server/convert/status_wire.h"
#include "server/engine/answer_memory.h"
#include "server/placement/place_jobs.h"
#include "server/rpc/client/client.h"
#include "tests/rpc/questions.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

v1::RecommendRequest Asked(const v1::TuneRequest& question) {
  v1::RecommendRequest request;
  *request.mutable_question() = question;
  return request;
}

// Returns the bytes of an answer without the way to it and the time of its search.
std::string BytesOf(v1::RecommendResponse answer) {
  answer.clear_source();
  answer.mutable_result()->mutable_search()->clear_seconds();
  return answer.DebugString();
}

class AnswersTest : public ServerTest {
 protected:
  v1::RecommendResponse Recommended(const v1::TuneRequest& question) {
    auto answer = client().Recommend(Asked(question));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : v1::RecommendResponse();
  }
  v1::CreateJobReportResponse Report(const v1::RecommendResponse& answer) {
    v1::CreateJobReportRequest report;
    report.set_study_id(answer.study_id());
    report.set_outcome("ok");
    report.set_step_time_seconds(1.2 * answer.result().plans(0).estimate().step_time_seconds());
    auto kept = client().CreateJobReport(report);
    EXPECT_TRUE(kept.ok()) << kept.status();
    return kept.ok() ? *std::move(kept) : v1::CreateJobReportResponse();
  }
  int StudyCount() { return client().ListStudies({})->studies_size(); }
};

TEST_F(AnswersTest, AnEqualQuestionGetsTheFirstAnswerAndItsStudy) {
  const v1::RecommendResponse first = Recommended(SmallQuestion());
  EXPECT_EQ(first.source(), "model");
  EXPECT_NE(first.study_id(), "");
  const v1::RecommendResponse second = Recommended(SmallQuestion());
  EXPECT_EQ(second.source(), "cache");
  EXPECT_EQ(BytesOf(second), BytesOf(first));
  EXPECT_EQ(StudyCount(), 1);
  // The study has the answer that was given.
  const auto study = client().GetStudy(first.study_id());
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(study->result().DebugString(), second.result().DebugString());
}

TEST_F(AnswersTest, AnotherQuestionIsSearched) {
  Recommended(SmallQuestion());
  v1::TuneRequest other = SmallQuestion();
  other.set_plan_count(3);
  EXPECT_EQ(Recommended(other).source(), "model");
  other = SmallQuestion();
  other.mutable_cluster()->set_name("another name");
  EXPECT_EQ(Recommended(other).source(), "model");
  other = SmallQuestion();
  other.mutable_workload()->set_global_batch_size(32);
  EXPECT_EQ(Recommended(other).source(), "model");
  EXPECT_EQ(StudyCount(), 4);
}

TEST_F(AnswersTest, AReportIsLearntFromAtOnce) {
  const v1::RecommendResponse before = Recommended(SmallQuestion());
  Report(before);
  const v1::RecommendResponse after = Recommended(SmallQuestion());
  EXPECT_EQ(after.source(), "model");
  EXPECT_NE(after.study_id(), before.study_id());
  EXPECT_EQ(after.result().calibration().run_count(), 1);
  EXPECT_EQ(Recommended(SmallQuestion()).source(), "cache");
  // The answer of before can still be asked for.
  v1::TuneRequest earlier = SmallQuestion();
  earlier.set_history_sequence(0);
  const v1::RecommendResponse again = Recommended(earlier);
  EXPECT_EQ(again.result().plans(0).DebugString(), before.result().plans(0).DebugString());
}

TEST_F(AnswersTest, ARetractionIsSeenAtOnce) {
  const v1::RecommendResponse cold = Recommended(SmallQuestion());
  const std::string id = Report(cold).report().id();
  EXPECT_TRUE(Recommended(SmallQuestion()).result().has_calibration());
  v1::RetractMeasurementRequest retract;
  retract.set_measurement_id(id);
  retract.set_reason("another job ran beside it");
  ASSERT_TRUE(client().RetractMeasurement(retract).ok());
  const v1::RecommendResponse after = Recommended(SmallQuestion());
  EXPECT_EQ(after.source(), "model");
  EXPECT_FALSE(after.result().has_calibration());
}

TEST_F(AnswersTest, AnImportIsSeenAtOnce) {
  // Another server has measured something.
  RunningServer other;
  const auto theirs = other.client().Recommend(Asked(SmallQuestion()));
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  v1::CreateJobReportRequest report;
  report.set_study_id(theirs->study_id());
  report.set_outcome("ok");
  report.set_step_time_seconds(theirs->result().plans(0).estimate().step_time_seconds());
  ASSERT_TRUE(other.client().CreateJobReport(report).ok());
  std::string lines;
  ASSERT_TRUE(other.client()
                  .ExportHistory({},
                                 [&lines](const std::string& part) {
                                   lines += part;
                                   return absl::OkStatus();
                                 })
                  .ok());

  Recommended(SmallQuestion());
  bool is_sent = false;
  const auto imported = client().ImportHistory({}, [&]() -> std::string {
    if (is_sent) return "";
    is_sent = true;
    return lines;
  });
  ASSERT_TRUE(imported.ok()) << imported.status();
  const v1::RecommendResponse after = Recommended(SmallQuestion());
  EXPECT_EQ(after.source(), "model");
  EXPECT_EQ(after.result().calibration().run_count(), 1);
}

TEST_F(AnswersTest, AMeasurementOfAnotherChipChangesNothing) {
  v1::TuneRequest other_chip = SmallQuestion();
  other_chip.mutable_cluster()->mutable_pools(0)->set_chip("nvidia-h100-sxm5-80gb");
  const v1::RecommendResponse other = Recommended(other_chip);
  const v1::RecommendResponse first = Recommended(SmallQuestion());
  Report(other);
  const v1::RecommendResponse second = Recommended(SmallQuestion());
  EXPECT_EQ(second.source(), "cache");
  EXPECT_EQ(BytesOf(second), BytesOf(first));
  EXPECT_EQ(Recommended(other_chip).source(), "model");
}

TEST_F(AnswersTest, AnUnrecordedAnswerIsRecordedWhenSomebodyWantsItsStudy) {
  v1::RecommendRequest unrecorded = Asked(SmallQuestion());
  unrecorded.set_is_unrecorded(true);
  EXPECT_EQ(client().Recommend(unrecorded)->source(), "model");
  EXPECT_EQ(client().Recommend(unrecorded)->source(), "cache");
  EXPECT_EQ(StudyCount(), 0);
  const v1::RecommendResponse recorded = Recommended(SmallQuestion());
  EXPECT_EQ(recorded.source(), "model");
  EXPECT_NE(recorded.study_id(), "");
  // Who asks that no study keeps the answer is not told of one.
  const auto again = client().Recommend(unrecorded);
  EXPECT_EQ(again->source(), "cache");
  EXPECT_EQ(again->study_id(), "");
  EXPECT_EQ(StudyCount(), 1);
}

TEST_F(AnswersTest, WhatDoesNotFitIsNotSearchedAgain) {
  v1::TuneRequest question = BigQuestion();
  question.mutable_cluster()->mutable_pools(0)->set_node_count(1);
  question.mutable_cluster()->mutable_pools(0)->set_devices_per_node(1);
  const absl::Status first = client().Recommend(Asked(question)).status();
  const absl::Status second = client().Recommend(Asked(question)).status();
  EXPECT_EQ(Reason(first), "NO_FEASIBLE_PLAN");
  EXPECT_EQ(Reason(second), "NO_FEASIBLE_PLAN");
  ASSERT_TRUE(InfeasibleOf(first).has_value() && InfeasibleOf(second).has_value());
  EXPECT_EQ(InfeasibleOf(second)->DebugString(), InfeasibleOf(first)->DebugString());
  EXPECT_TRUE(StudyIdOf(first).has_value());
  EXPECT_EQ(StudyIdOf(second), StudyIdOf(first));
  EXPECT_EQ(StudyCount(), 1);
}

TEST_F(AnswersTest, AMistakeIsNoAnswer) {
  v1::TuneRequest question = SmallQuestion();
  question.mutable_model()->set_layer_count(0);
  EXPECT_TRUE(absl::IsInvalidArgument(client().Recommend(Asked(question)).status()));
  question.mutable_model()->set_layer_count(32);
  EXPECT_EQ(Recommended(question).source(), "model");
}

// Equal calls that begin together may all search, but they leave one study.
TEST_F(AnswersTest, EqualQuestionsAtOnceMakeOneStudy) {
  std::vector<std::future<absl::StatusOr<v1::RecommendResponse>>> calls;
  calls.reserve(24);
  for (int i = 0; i < 24; ++i) {
    calls.push_back(std::async(std::launch::async,
                               [this] { return client().Recommend(Asked(SmallQuestion())); }));
  }
  std::set<std::string> answers;
  for (auto& call : calls) {
    const auto answer = call.get();
    ASSERT_TRUE(answer.ok()) << answer.status();
    answers.insert(BytesOf(*answer));
  }
  EXPECT_EQ(answers.size(), 1U);
  EXPECT_EQ(StudyCount(), 1);
}

// An engine without a server, for questions whose end a test decides.
class AnswerRecommendTest : public testing::Test {
 protected:
  AnswerRecommendTest() {
    auto recorder = Recorder::Open({.path = ":memory:"});
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    engine_ = *Engine::Start(*std::move(recorder), Known(), ProtobufCodec(Known()));
  }
  absl::StatusOr<v1::RecommendResponse> Answer(const v1::TuneRequest& question,
                                               std::chrono::system_clock::time_point end) {
    return AnswerRecommend(Asked(question), Context(), end);
  }
  QuestionContext Context() {
    return {
        .knowledge = Known(),
        .history = [this](std::optional<std::int64_t> up_to) { return engine_->History(up_to); },
        .answers = &engine_->answers()};
  }
  AnswerMemory& answers() { return engine_->answers(); }

 private:
  std::unique_ptr<Engine> engine_;
};

constexpr std::chrono::hours kLong(1);

TEST_F(AnswerRecommendTest, AKnownAnswerNeedsNoTime) {
  const auto now = std::chrono::system_clock::now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(Answer(SmallQuestion(), now - kLong).status()));
  ASSERT_TRUE(Answer(SmallQuestion(), now + kLong).ok());
  const auto known = Answer(SmallQuestion(), now - kLong);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->source(), "cache");
}

// The job may have one node or both, and the value of one more node asks for three.
TEST_F(AnswerRecommendTest, PlacesNoJobsAfterTheDeadline) {
  const v1::TuneRequest question = SmallQuestion();
  v1::PlaceJobsRequest request;
  v1::PlacementJob& job = *request.add_jobs();
  job.set_name("chat");
  *job.mutable_model() = question.model();
  *job.mutable_workload() = question.workload();
  v1::Cluster& cluster = *request.add_clusters();
  cluster = question.cluster();
  cluster.set_name("one");
  cluster.mutable_pools(0)->set_node_count(2);
  const auto now = std::chrono::system_clock::now();
  const absl::Status late = AnswerPlaceJobs(request, Context(), now - kLong).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(std::string(late.message()),
              HasSubstr("0 of 3 questions about jobs on nodes were answered"));
  std::stop_source stopped;
  stopped.request_stop();
  QuestionContext context = Context();
  context.cancel = stopped.get_token();
  EXPECT_TRUE(absl::IsCancelled(AnswerPlaceJobs(request, context, now + kLong).status()));
  const auto placed = AnswerPlaceJobs(request, Context(), now + kLong);
  ASSERT_TRUE(placed.ok()) << placed.status();
  ASSERT_EQ(placed->placement().jobs_size(), 1);
  EXPECT_EQ(placed->placement().jobs(0).nodes_size(), 1);
}

TEST_F(AnswerRecommendTest, WhatADeadlineCutIsNotRemembered) {
  v1::TuneRequest question = BigQuestion();
  question.set_deadline_seconds(1e-6);
  const auto end = std::chrono::system_clock::now() + kLong;
  const auto cut = Answer(question, end);
  EXPECT_TRUE(!cut.ok() || !cut->result().search().complete());
  EXPECT_EQ(answers().bytes(), 0U);
}

TEST_F(AnswerRecommendTest, WhatIsForgottenIsSearchedAgain) {
  const auto end = std::chrono::system_clock::now() + kLong;
  EXPECT_EQ(Answer(SmallQuestion(), end)->source(), "model");
  EXPECT_GT(answers().bytes(), 1000U);
  answers().Clear();
  EXPECT_EQ(answers().bytes(), 0U);
  EXPECT_EQ(Answer(SmallQuestion(), end)->source(), "model");
  EXPECT_EQ(Answer(SmallQuestion(), end)->source(), "cache");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
