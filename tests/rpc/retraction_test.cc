// Tests that a measurement can be marked as wrong, and which answers no longer learn from it then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "server/rpc/client/client.h"
#include "tests/rpc/questions.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RetractionTest : public ServerTest {
 protected:
  v1::RecommendResponse Recommended(std::optional<std::int64_t> history_sequence = {}) {
    v1::RecommendRequest request;
    *request.mutable_question() = SmallQuestion();
    if (history_sequence) request.mutable_question()->set_history_sequence(*history_sequence);
    auto answer = client().Recommend(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : v1::RecommendResponse();
  }

  // Returns the answer without its id and its own time.
  std::string TextOf(std::optional<std::int64_t> history_sequence) {
    v1::TuneResult result = Recommended(history_sequence).result();
    result.mutable_search()->clear_seconds();
    return result.DebugString();
  }

  // Reports runs of the best plan that took so many times its expected time; returns their ids.
  std::vector<std::string> Report(std::initializer_list<double> slower) {
    const v1::RecommendResponse answer = Recommended();
    v1::BatchCreateJobReportsRequest batch;
    for (const double times : slower) {
      v1::CreateJobReportRequest& report = *batch.add_requests();
      report.set_study_id(answer.study_id());
      report.set_outcome("ok");
      report.set_step_time_seconds(times * answer.result().plans(0).estimate().step_time_seconds());
    }
    const auto kept = client().BatchCreateJobReports(batch);
    EXPECT_TRUE(kept.ok()) << kept.status();
    std::vector<std::string> ids;
    if (!kept.ok()) return ids;
    for (const auto& response : kept->responses()) ids.push_back(response.report().id());
    return ids;
  }

  absl::StatusOr<v1::RetractMeasurementResponse> Retract(const std::string& id,
                                                         const std::string& reason) {
    v1::RetractMeasurementRequest request;
    request.set_measurement_id(id);
    request.set_reason(reason);
    return client().RetractMeasurement(request);
  }

  // Returns the ids of a list, newest first.
  std::vector<std::string> Listed(std::optional<bool> is_retracted) {
    v1::ListMeasurementsRequest request;
    if (is_retracted) request.mutable_filter()->set_is_retracted(*is_retracted);
    const auto list = client().ListMeasurements(request);
    EXPECT_TRUE(list.ok()) << list.status();
    std::vector<std::string> ids;
    for (const v1::Measurement& row : list->measurements()) ids.push_back(row.id());
    return ids;
  }
};

TEST_F(RetractionTest, AnswersBeforeItStayAndThoseAfterItLearnNothingFromIt) {
  const std::vector<std::string> ids = Report({1.1, 1.3, 1.1});
  const std::string cold = TextOf(0);
  const std::string before = TextOf(3);
  EXPECT_EQ(before, TextOf({}));
  const auto retracted = Retract(ids[1], "another job ran on the node");
  ASSERT_TRUE(retracted.ok()) << retracted.status();
  EXPECT_EQ(retracted->measurement().retraction().sequence(), 4);
  EXPECT_EQ(TextOf(3), before);

  const v1::Calibration learnt = Recommended().result().calibration();
  EXPECT_EQ(learnt.history_sequence(), 4);
  EXPECT_EQ(learnt.run_count(), 2);
  for (const v1::PastRun& run : learnt.evidence()) EXPECT_NE(run.measurement_id(), ids[1]);
  EXPECT_EQ(TextOf(4), TextOf({}));
  const std::string after_one = TextOf(4);
  EXPECT_NE(after_one, before);

  // Without any that counts, the answer is that of an empty store.
  for (const std::string& id : {ids[0], ids[2]}) ASSERT_TRUE(Retract(id, "wrong unit").ok());
  EXPECT_FALSE(Recommended().result().has_calibration());
  EXPECT_EQ(TextOf({}), cold);
  EXPECT_EQ(TextOf(3), before);
  EXPECT_EQ(TextOf(4), after_one);
}

TEST_F(RetractionTest, TheExpectationOfALaterReportDoesNotRestOnIt) {
  const std::vector<std::string> ids = Report({2.0});
  ASSERT_TRUE(Retract(ids[0], "wrong unit").ok());
  const std::vector<std::string> later = Report({1.0});
  const auto report = client().GetMeasurement(later.at(0));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->measurement().expected().calibration_id(), "");
  EXPECT_NEAR(report->measurement().step_time_ratio(), 1, 1e-12);
}

TEST_F(RetractionTest, ItEndsTheDriftThatItMade) {
  const std::vector<std::string> ids = Report({3.0, 3.0, 3.0});
  EXPECT_EQ(client().ListJobReports({})->warnings_size(), 1);
  ASSERT_TRUE(Retract(ids[0], "the clock of this node was wrong").ok());
  EXPECT_THAT(client().ListJobReports({})->warnings(), IsEmpty());  // two runs say little
  v1::ListJobReportsRequest early;
  early.mutable_filter()->set_up_to_sequence(3);
  EXPECT_EQ(client().ListJobReports(early)->warnings_size(), 1);
}

TEST_F(RetractionTest, ListsShowTheMark) {
  const std::vector<std::string> ids = Report({1.0, 1.1});
  const auto retracted = Retract(ids[0], "wrong unit");
  ASSERT_TRUE(retracted.ok()) << retracted.status();
  const v1::Measurement& marked = retracted->measurement();
  EXPECT_EQ(marked.id(), ids[0]);
  EXPECT_EQ(marked.retraction().reason(), "wrong unit");
  EXPECT_THAT(marked.retraction().create_time(), testing::EndsWith("Z"));
  EXPECT_THAT(Listed({}), ElementsAre(ids[1], ids[0]));
  EXPECT_THAT(Listed(true), ElementsAre(ids[0]));
  EXPECT_THAT(Listed(false), ElementsAre(ids[1]));
  const auto reports = client().ListJobReports({});
  ASSERT_TRUE(reports.ok()) << reports.status();
  EXPECT_FALSE(reports->reports(0).has_retraction());
  EXPECT_EQ(reports->reports(1).DebugString(), marked.DebugString());
  EXPECT_EQ(client().GetMeasurement(ids[0])->measurement().retraction().DebugString(),
            marked.retraction().DebugString());
}

TEST_F(RetractionTest, TheSameOnceMoreChangesNothing) {
  const std::vector<std::string> ids = Report({1.0});
  const auto first = Retract(ids[0], "wrong unit");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(Retract(ids[0], "wrong unit")->DebugString(), first->DebugString());
  const absl::Status other = Retract(ids[0], "wrong plan").status();
  EXPECT_TRUE(absl::IsAlreadyExists(other));
  EXPECT_EQ(Reason(other), "MEASUREMENT_RETRACTED");
  EXPECT_THAT(std::string(other.message()), HasSubstr("wrong unit"));
}

TEST_F(RetractionTest, BadRequestsAreRefused) {
  const std::vector<std::string> ids = Report({1.0});
  const absl::Status unknown = Retract("m-none", "wrong unit").status();
  EXPECT_TRUE(absl::IsNotFound(unknown));
  EXPECT_EQ(Reason(unknown), "UNKNOWN_MEASUREMENT");
  for (const std::string& reason :
       {std::string(), std::string(4001, 'w'), std::string("two\nlines")}) {
    const absl::Status refused = Retract(ids[0], reason).status();
    ASSERT_EQ(FieldViolations(refused).size(), 1U) << refused;
    EXPECT_EQ(FieldViolations(refused)[0].field, "reason");
  }
  EXPECT_THAT(Listed(true), IsEmpty());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
