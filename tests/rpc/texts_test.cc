// Tests that no call accepts a control character in a string, and that each names the field that
// has one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "meshwright/v1/history.pb.h"
#include "meshwright/v1/service.pb.h"
#include "search_space/base/status.h"
#include "server/rpc/client/client.h"
#include "tests/rpc/questions.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kBad("a\0b", 3);

struct TextCase {
  std::string name;
  std::string field;
  std::function<absl::Status(Client&)> call;
};

v1::TuneRequest BadQuestion() {
  v1::TuneRequest question = SmallQuestion();
  question.mutable_model()->set_mlp(kBad);
  return question;
}

// Returns a call with one message, which `fill` prepares.
template <typename Request, typename Response>
std::function<absl::Status(Client&)> With(absl::StatusOr<Response> (Client::*call)(const Request&),
                                          const std::function<void(Request&)>& fill) {
  return [call, fill](Client& client) {
    Request request;
    fill(request);
    return (client.*call)(request).status();
  };
}

const TextCase kTextCases[] = {
    {"Recommend", "question.model.mlp",
     [](Client& client) {
       v1::RecommendRequest request;
       *request.mutable_question() = BadQuestion();
       return client.Recommend(request).status();
     }},
    {"ExplainPlan", "question.model.mlp",
     [](Client& client) {
       v1::ExplainPlanRequest request;
       *request.mutable_question() = BadQuestion();
       return client.ExplainPlan(request).status();
     }},
    {"Sweep", "question.model.mlp",
     [](Client& client) {
       v1::SweepRequest request;
       *request.mutable_question() = BadQuestion();
       return client.Sweep(request).status();
     }},
    {"PlaceJobs", "jobs[0].model.mlp",
     [](Client& client) {
       v1::PlaceJobsRequest request;
       *request.add_jobs()->mutable_model() = BadQuestion().model();
       *request.add_clusters() = BadQuestion().cluster();
       return client.PlaceJobs(request).status();
     }},
    {"EvaluatePlansHistory", "history[0].plan.schedule",
     [](Client& client) {
       v1::EvaluatePlansRequest request;
       request.add_cases();  // without cases, the client does not call the server
       request.add_history()->mutable_plan()->set_schedule(kBad);
       return client.EvaluatePlans(request).status();
     }},
    {"CreateStudy", "question.model.mlp",
     With<v1::CreateStudyRequest>(&Client::CreateStudy,
                                  [](auto& r) { *r.mutable_question() = BadQuestion(); })},
    {"CreateStudyId", "study_id",
     With<v1::CreateStudyRequest>(&Client::CreateStudy, [](auto& r) { r.set_study_id(kBad); })},
    {"GetStudy", "study_id", [](Client& client) { return client.GetStudy(kBad).status(); }},
    {"CancelStudy", "study_id", [](Client& client) { return client.CancelStudy(kBad).status(); }},
    {"PauseStudy", "study_id", [](Client& client) { return client.PauseStudy(kBad).status(); }},
    {"ResumeStudy", "study_id", [](Client& client) { return client.ResumeStudy(kBad).status(); }},
    {"DeleteStudy", "study_id",
     With<v1::DeleteStudyRequest>(&Client::DeleteStudy, [](auto& r) { r.set_study_id(kBad); })},
    {"RetryTrials", "request_id",
     With<v1::RetryTrialsRequest>(&Client::RetryTrials, [](auto& r) { r.set_request_id(kBad); })},
    {"ListAuditEvents", "filter.caller",
     With<v1::ListAuditEventsRequest>(&Client::ListAuditEvents,
                                      [](auto& r) { r.mutable_filter()->set_caller(kBad); })},
    {"UpdateStudy", "display_name",
     With<v1::UpdateStudyRequest>(&Client::UpdateStudy, [](auto& r) { r.set_display_name(kBad); })},
    {"ListStudies", "page_token",
     With<v1::ListStudiesRequest>(&Client::ListStudies, [](auto& r) { r.set_page_token(kBad); })},
    {"ListPlans", "page_token",
     With<v1::ListPlansRequest>(&Client::ListPlans, [](auto& r) { r.set_page_token(kBad); })},
    {"ListTrials", "order",
     With<v1::ListTrialsRequest>(&Client::ListTrials, [](auto& r) { r.set_order(kBad); })},
    {"ListAttempts", "study_id",
     With<v1::ListAttemptsRequest>(&Client::ListAttempts, [](auto& r) { r.set_study_id(kBad); })},
    {"WatchStudy", "study_id",
     [](Client& client) {
       v1::WatchStudyRequest request;
       request.set_study_id(kBad);
       return client.WatchStudy(request, [](const v1::WatchStudyResponse&) { return true; });
     }},
    {"CreateJobReport", "job_name",
     With<v1::CreateJobReportRequest>(&Client::CreateJobReport,
                                      [](auto& r) { r.set_job_name("a\nb"); })},
    {"CreateJobReportNote", "note",
     With<v1::CreateJobReportRequest>(&Client::CreateJobReport,
                                      [](auto& r) { r.set_note("a\x1b[2J"); })},
    {"BatchCreateJobReports", "requests[0].outcome",
     With<v1::BatchCreateJobReportsRequest>(&Client::BatchCreateJobReports,
                                            [](auto& r) { r.add_requests()->set_outcome(kBad); })},
    {"ListJobReports", "filter.chip",
     With<v1::ListJobReportsRequest>(&Client::ListJobReports,
                                     [](auto& r) { r.mutable_filter()->set_chip(kBad); })},
    {"GetMeasurement", "measurement_id",
     [](Client& client) { return client.GetMeasurement(kBad).status(); }},
    {"RetractMeasurement", "reason",
     With<v1::RetractMeasurementRequest>(&Client::RetractMeasurement,
                                         [](auto& r) { r.set_reason(kBad); })},
    {"GetCalibration", "calibration_id",
     [](Client& client) { return client.GetCalibration(kBad).status(); }},
    {"GetChip", "chip_id", [](Client& client) { return client.GetChip(kBad).status(); }},
    {"ListMeasurements", "order",
     With<v1::ListMeasurementsRequest>(&Client::ListMeasurements,
                                       [](auto& r) { r.set_order(kBad); })},
    {"ListCalibrations", "chip",
     With<v1::ListCalibrationsRequest>(&Client::ListCalibrations,
                                       [](auto& r) { r.set_chip(kBad); })},
    {"ExportHistory", "filter.model_name",
     [](Client& client) {
       v1::ExportHistoryRequest request;
       request.mutable_filter()->set_model_name(kBad);
       return client.ExportHistory(request, [](const auto&) { return absl::OkStatus(); });
     }},
    {"ImportHistory", "conflict_policy",
     [](Client& client) {
       v1::ImportHistoryRequest options;
       options.set_conflict_policy(kBad);
       return client.ImportHistory(options, [] { return std::string(); }).status();
     }},
};

class TextsTest : public testing::Test {
 protected:
  // One server serves all tests, because none of the calls changes anything.
  static void SetUpTestSuite() { running_ = new RunningServer(); }
  static void TearDownTestSuite() {
    delete running_;
    running_ = nullptr;
  }
  static RunningServer* running_;
};
RunningServer* TextsTest::running_ = nullptr;

TEST_F(TextsTest, ControlCharactersAreRefusedWithTheirField) {
  for (const TextCase& c : kTextCases) {
    const absl::Status status = c.call(running_->client());
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.name << ": " << status;
    const std::vector<FieldViolation> found = FieldViolations(status);
    ASSERT_EQ(found.size(), 1U) << c.name << ": " << status;
    EXPECT_EQ(found.front().field, c.field) << c.name;
    EXPECT_THAT(found.front().description, HasSubstr("must have no control characters")) << c.name;
  }
}

// The other cases are answered.
TEST_F(TextsTest, ABadCaseFailsAlone) {
  v1::EvaluatePlansRequest request;
  v1::EvaluateCase& good = *request.add_cases();
  const v1::TuneRequest question = SmallQuestion();
  *good.mutable_model() = question.model();
  *good.mutable_workload() = question.workload();
  *good.mutable_cluster() = question.cluster();
  good.mutable_plan()->set_tensor_parallel(8);
  v1::EvaluateCase& bad = *request.add_cases();
  bad = good;
  bad.mutable_model()->set_mlp(kBad);
  const auto answer = running_->client().EvaluatePlans(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->answers(0).has_estimate());
  const v1::CaseError& error = answer->answers(1).failed().error();
  ASSERT_EQ(error.fields_size(), 1);
  EXPECT_EQ(error.fields(0).field(), "model.mlp");
  EXPECT_THAT(error.fields(0).description(), HasSubstr("byte 2 is U+0000"));
}

TEST_F(TextsTest, EveryMistakeIsNamedAtOnce) {
  v1::RecommendRequest request;
  *request.mutable_question() = BadQuestion();
  request.mutable_question()->mutable_model()->set_name("a\x7f");
  const auto found = FieldViolations(running_->client().Recommend(request).status());
  std::vector<std::string> fields;
  for (const FieldViolation& violation : found) fields.push_back(violation.field);
  EXPECT_THAT(fields, ElementsAre("question.model.name", "question.model.mlp"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
