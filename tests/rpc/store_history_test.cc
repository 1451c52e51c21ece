// Tests that a server's answers use what its store has measured, and say which runs.
#include "server/engine/store_history.h"

#include <fmt/format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/plan.h"
#include "server/convert/convert.h"
#include "server/engine/engine.h"
#include "server/engine/engine_options.h"
#include "server/engine/measurement.h"
#include "server/rpc/client/client.h"
#include "server/rpc/server.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "tests/files/temporary_folder.h"
#include "tests/rpc/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using google::protobuf::util::MessageDifferencer;

constexpr double kSlower = 1.1;
constexpr int kRuns = 3;

class StoreHistoryTest : public testing::Test {
 protected:
  StoreHistoryTest() {
    auto recorder = Recorder::Open({.path = folder_.File("history.db")});
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    for (int i = 0; i < kRuns; ++i) {
      const MeasurementRecord slow = Slow(fmt::format("m-{}", i));
      EXPECT_TRUE(recorder->InsertMeasurements({&slow, 1}).ok());
    }
    engine_ = *Engine::Start(*std::move(recorder), knowledge_, codec_);
    server_ = *Server::Start({.listen = "127.0.0.1:0"}, knowledge_, *engine_);
    client_ = std::make_unique<Client>(*Client::Connect(server_->address()));
  }

  [[nodiscard]] ResolvedStudy Asked() const {
    return FromWire(SmallQuestion(), knowledge_).value();
  }

  // Returns a run of the plan that the model alone considers best.
  [[nodiscard]] MeasurementRecord Slow(const std::string& id) const {
    const StudyAnswer answer = RunStudy(Asked(), knowledge_, {}).value();
    const RankedPlan& best = std::get<StudyResult>(answer).plans.front();
    const PlanKey key = MakePlanKey(best.plan);
    return {.id = id,
            .source = MeasurementSource::kJobReport,
            .question = QuestionRecordOf(Asked().request.question, Asked().problem, codec_),
            .plan_key = key.text,
            .plan_digest = key.digest,
            .plan = codec_.encode_plan(best.plan),
            .step_time = best.estimate.step_time * kSlower};
  }

  v1::RecommendResponse Recommend(const v1::TuneRequest& question) {
    v1::RecommendRequest request;
    *request.mutable_question() = question;
    auto answer = client_->Recommend(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : v1::RecommendResponse();
  }

  const TemporaryFolder folder_;
  const Knowledge knowledge_ = LoadKnowledge("").value();
  const StudyCodec codec_ = ProtobufCodec(knowledge_);
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
};

// Each search has its own time.
v1::TuneResult WithoutTime(v1::TuneResult result) {
  result.mutable_search()->clear_seconds();
  return result;
}

TEST_F(StoreHistoryTest, AnswersMoveAndNameTheRunsBehindThem) {
  v1::TuneRequest question = SmallQuestion();
  const v1::TuneResult learnt = Recommend(question).result();
  question.set_history_sequence(0);
  const v1::RecommendResponse cold = Recommend(question);
  // The answer is the same as without a store.
  EXPECT_FALSE(cold.result().has_calibration());
  const auto without = RunStudy(Asked(), knowledge_, {});
  EXPECT_TRUE(MessageDifferencer::Equals(WithoutTime(ToWire(std::get<StudyResult>(*without))),
                                         WithoutTime(cold.result())));

  ASSERT_TRUE(learnt.has_calibration());
  const v1::Calibration& calibration = learnt.calibration();
  EXPECT_EQ(calibration.run_count(), kRuns);
  EXPECT_EQ(calibration.history_sequence(), kRuns);
  EXPECT_GT(calibration.time_ratio(), 1.01);
  EXPECT_EQ(calibration.evidence_size(), kRuns);
  EXPECT_EQ(calibration.evidence(0).measurement_id(), "m-0");
  EXPECT_NEAR(calibration.evidence(0).time_ratio(), kSlower, 1e-9);
  EXPECT_EQ(calibration.evidence(0).similarity_ratio(), 1);
  EXPECT_GT(learnt.plans(0).estimate().step_time_seconds(),
            1.01 * cold.result().plans(0).estimate().step_time_seconds());
}

TEST_F(StoreHistoryTest, AllAnswersLeanOnTheSame) {
  const v1::RecommendResponse recommended = Recommend(SmallQuestion());
  const v1::RankedPlan& best = recommended.result().plans(0);
  // The study's answer is that of the recommendation.
  v1::CreateStudyRequest create;
  *create.mutable_question() = SmallQuestion();
  const auto created = client_->CreateStudy(create);
  ASSERT_TRUE(created.ok()) << created.status();
  v1::WatchStudyRequest watch;
  watch.set_study_id(created->study().id());
  ASSERT_TRUE(client_
                  ->WatchStudy(watch, [](const v1::WatchStudyResponse&) { return true; },
                               {.timeout = std::chrono::seconds(120)})
                  .ok());
  EXPECT_TRUE(
      MessageDifferencer::Equals(WithoutTime(client_->GetStudy(created->study().id())->result()),
                                 WithoutTime(recommended.result())));

  v1::ExplainPlanRequest explain;
  *explain.mutable_question() = SmallQuestion();
  const auto explained = client_->ExplainPlan(explain);
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_EQ(explained->best().estimate().step_time_seconds(), best.estimate().step_time_seconds());
  EXPECT_TRUE(
      MessageDifferencer::Equals(explained->calibration(), recommended.result().calibration()));

  v1::EvaluatePlansRequest evaluate;
  v1::EvaluateCase& one = *evaluate.add_cases();
  *one.mutable_model() = SmallQuestion().model();
  *one.mutable_workload() = SmallQuestion().workload();
  *one.mutable_cluster() = SmallQuestion().cluster();
  *one.mutable_plan() = best.plan();
  const auto evaluated = client_->EvaluatePlans(evaluate);
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_EQ(evaluated->answers(0).estimate().step_time_seconds(),
            best.estimate().step_time_seconds());
  EXPECT_TRUE(MessageDifferencer::Equals(evaluated->answers(0).estimate().calibration(),
                                         recommended.result().calibration()));
  // It is stated once beside the plans, and not in each.
  EXPECT_FALSE(best.estimate().has_calibration());

  explain.mutable_question()->set_history_sequence(0);
  EXPECT_FALSE(client_->ExplainPlan(explain)->has_calibration());
}

TEST_F(StoreHistoryTest, ACalibrationIsKeptOnceAndItsStudyKnowsHowFarItLooked) {
  const v1::RecommendResponse first = Recommend(SmallQuestion());
  const v1::RecommendResponse second = Recommend(SmallQuestion());
  EXPECT_EQ(first.result().calibration().id(), second.result().calibration().id());
  server_.reset();
  engine_.reset();
  const auto recorder = Recorder::Open({.path = folder_.File("history.db")});
  const auto kept = recorder->ListCalibrations(std::nullopt, 0, "");
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_EQ(kept->calibrations.size(), 1u);
  const auto whole = recorder->GetCalibration(first.result().calibration().id());
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->last_sequence, kRuns);
  EXPECT_EQ(whole->chip, "nvidia-a100-sxm4-80gb");
  v1::Calibration content;
  ASSERT_TRUE(content.ParseFromString(whole->content));
  EXPECT_TRUE(MessageDifferencer::Equals(content, first.result().calibration()));
}

TEST_F(StoreHistoryTest, WhatMakesNoSenseIsLeftOut) {
  Recorder recorder = Recorder::Open({.path = ":memory:"}).value();
  MeasurementRecord bad_plan = Slow("m-bad-plan");
  bad_plan.plan_key = "of another program";
  MeasurementRecord bad_question = Slow("m-bad-question");
  bad_question.question.digest = "other";
  bad_question.question.question = "of another program";
  MeasurementRecord impossible = Slow("m-impossible");
  impossible.step_time = Seconds(1e-3);
  const MeasurementRecord rows[] = {bad_plan, Slow("m-good"), bad_question, impossible};
  ASSERT_TRUE(recorder.InsertMeasurements(rows).ok());
  const Problem problem = Asked().problem;
  const auto history = ReadStoreHistory(recorder, problem, knowledge_, codec_, 4);
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->rows.size(), 1u);
  EXPECT_EQ(history->rows[0]->measurement_id, "m-good");
  ASSERT_EQ(history->warnings.size(), 1u);
  // The newest are examined first.
  EXPECT_EQ(history->warnings[0].find("3 of the store's measurements were left out, because they "
                                      "cannot be read or are impossible; the first is "
                                      "m-impossible: step_time_seconds = 0.001; "),
            0u)
      << history->warnings[0];
}

// The same bytes are another question if the chip's figures have changed.
TEST_F(StoreHistoryTest, AChipWhoseFiguresChangedIsKeptApartAndToldOf) {
  const Problem problem = Asked().problem;
  Problem changed = problem;
  ChipSpec& chip = changed.cluster.pools.front().chip;
  chip.memory_bandwidth.rate *= 1.25;
  MeasurementRecord before = Slow("m-before");
  before.question = QuestionRecordOf(Asked().request.question, changed, codec_);
  const MeasurementRecord after = Slow("m-after");
  ASSERT_EQ(before.question.question, after.question.question);
  ASSERT_NE(before.question.chip_fingerprint, after.question.chip_fingerprint);
  EXPECT_NE(before.question.digest, after.question.digest);

  Recorder recorder = Recorder::Open({.path = ":memory:"}).value();
  const MeasurementRecord rows[] = {before, after};
  ASSERT_TRUE(recorder.InsertMeasurements(rows).ok());
  for (const MeasurementRecord& row : rows) {
    EXPECT_EQ(*recorder.GetQuestion(row.question.digest), row.question);
    EXPECT_EQ(recorder.GetMeasurement(row.id)->question.chip_fingerprint,
              row.question.chip_fingerprint);
  }

  const auto history = ReadStoreHistory(recorder, problem, knowledge_, codec_, 2);
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->rows.size(), 2u);
  ASSERT_EQ(history->warnings.size(), 1u);
  EXPECT_EQ(history->warnings[0].find("1 of the store's measurements were stored under other "
                                      "figures of nvidia-a100-sxm4-80gb than this program has"),
            0u)
      << history->warnings[0];
}

// A run that can be learnt from is followed by so many newer ones that cannot.
TEST_F(StoreHistoryTest, WhatMakesNoSenseTakesNoPlacesUntilTooMuchIsRead) {
  const Problem problem = Asked().problem;
  MeasurementRecord bad = Slow("m-bad");
  const MeasurementRecord good = Slow("m-good");
  bad.plan_key = "of another program";
  for (const int count : {kMaxStoreRows, kMaxStoreRowsRead - 1, kMaxStoreRowsRead}) {
    std::vector<MeasurementRecord> rows = {good};
    for (int i = 0; i < count; ++i) {
      bad.id = fmt::format("m-bad-{}", i);
      rows.push_back(bad);
    }
    Recorder recorder = Recorder::Open({.path = ":memory:"}).value();
    ASSERT_TRUE(recorder.InsertMeasurements(rows).ok());
    const auto history = ReadStoreHistory(recorder, problem, knowledge_, codec_, count + 1);
    ASSERT_TRUE(history.ok()) << history.status();
    EXPECT_EQ(history->rows.size(), count < kMaxStoreRowsRead ? 1u : 0u) << count;
    ASSERT_EQ(history->warnings.size(), 1u);
    EXPECT_EQ(history->warnings[0].find(fmt::format("{} of the store's", count)), 0u) << count;
  }
}

// Clients are told as well.
TEST_F(StoreHistoryTest, AnswersSayWhatTheyDoNotLearnFrom) {
  MeasurementRecord bad = Slow("m-bad");
  bad.plan_key = "of another program";
  ASSERT_TRUE(engine_->store()
                  .write([&bad](Recorder& recorder) {
                    return recorder.InsertMeasurements({&bad, 1}).status();
                  })
                  .ok());
  int warning_count = 0;
  const v1::RecommendResponse recommended = Recommend(SmallQuestion());
  for (const std::string& warning : recommended.result().warnings()) {
    warning_count +=
        warning.ends_with("the first is m-bad: plan = of another program; cannot be read");
  }
  EXPECT_EQ(warning_count, 1);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
