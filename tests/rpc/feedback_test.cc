#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "server/convert/job_report_wire.h"
#include "server/rpc/client/client.h"
#include "tests/rpc/questions.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

class FeedbackTest : public ServerTest {
 protected:
  v1::RecommendResponse Recommended() {
    v1::RecommendRequest request;
    *request.mutable_question() = SmallQuestion();
    const auto answer = client().Recommend(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : v1::RecommendResponse();
  }

  static v1::CreateJobReportRequest ReportOf(const v1::RecommendResponse& answer, double slower) {
    v1::CreateJobReportRequest report;
    report.set_study_id(answer.study_id());
    report.set_outcome("ok");
    report.set_step_time_seconds(slower * answer.result().plans(0).estimate().step_time_seconds());
    return report;
  }

  static std::set<std::string> BadFields(const absl::Status& status) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    std::set<std::string> fields;
    for (const FieldViolation& violation : FieldViolations(status)) fields.insert(violation.field);
    return fields;
  }

  // Returns all measurements.
  std::vector<v1::Measurement> Measured() {
    const auto list = client().ListMeasurements({});
    EXPECT_TRUE(list.ok()) << list.status();
    return {list->measurements().begin(), list->measurements().end()};
  }
};

TEST_F(FeedbackTest, AReportIsKeptBesideWhatWasExpected) {
  const v1::RecommendResponse answer = Recommended();
  const v1::Estimate& promised = answer.result().plans(0).estimate();
  v1::CreateJobReportRequest request = ReportOf(answer, 1.1);
  request.set_peak_memory_bytes(50'000'000'000);
  request.set_job_name("llama-1");
  const auto kept = client().CreateJobReport(request);
  ASSERT_TRUE(kept.ok()) << kept.status();
  const v1::Measurement& report = kept->report();
  EXPECT_EQ(report.sequence(), 1);
  EXPECT_EQ(report.source(), "job_report");
  EXPECT_EQ(report.study_id(), answer.study_id());
  EXPECT_EQ(report.model_name(), "llama2-7b");
  EXPECT_EQ(report.chip(), "nvidia-a100-sxm4-80gb");
  EXPECT_EQ(report.plan_digest(), answer.result().plans(0).plan_digest());
  EXPECT_EQ(report.job_name(), "llama-1");
  EXPECT_EQ(report.peak_memory_bytes(), 50'000'000'000);
  // There were no measurements yet, so the expectation equals the study's estimate.
  EXPECT_EQ(kept->recommended_step_time_seconds(), promised.step_time_seconds());
  EXPECT_EQ(report.expected().step_time_seconds(), promised.step_time_seconds());
  EXPECT_EQ(report.expected().step_time_low_seconds(), promised.step_time_low_seconds());
  EXPECT_EQ(report.expected().step_time_high_seconds(), promised.step_time_high_seconds());
  EXPECT_EQ(report.expected().calibration_id(), "");
  EXPECT_NEAR(report.step_time_ratio(), 1.1, 1e-12);
  EXPECT_TRUE(report.is_within_interval());
  EXPECT_THAT(kept->warnings(), testing::IsEmpty());

  const auto whole = client().GetMeasurement(report.id());
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->measurement().model().layer_count(), 32);
  EXPECT_EQ(whole->measurement().workload().sequence_length(), 2048);
  EXPECT_EQ(whole->measurement().cluster().pools(0).devices_per_node(), 8);
  EXPECT_EQ(whole->measurement().plan().DebugString(),
            answer.result().plans(0).plan().DebugString());
}

TEST_F(FeedbackTest, WhatIsReportedIsExpectedNextTime) {
  const v1::RecommendResponse answer = Recommended();
  const auto first = client().CreateJobReport(ReportOf(answer, 1.1));
  const auto second = client().CreateJobReport(ReportOf(answer, 1.1));
  ASSERT_TRUE(first.ok() && second.ok()) << second.status();
  EXPECT_GT(second->report().expected().step_time_seconds(),
            first->report().expected().step_time_seconds());
  EXPECT_LT(second->report().step_time_ratio(), 1.1);
  EXPECT_EQ(second->recommended_step_time_seconds(), first->recommended_step_time_seconds());
  // The store says why.
  const std::string id = second->report().expected().calibration_id();
  const auto calibration = client().GetCalibration(id);
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  const v1::Calibration& learnt = calibration->calibration().calibration();
  EXPECT_EQ(learnt.id(), id);
  EXPECT_EQ(learnt.history_sequence(), 1);
  ASSERT_EQ(learnt.evidence_size(), 1);
  EXPECT_EQ(learnt.evidence(0).measurement_id(), first->report().id());
  const auto list = client().ListCalibrations({});
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->calibrations_size(), 1);
  EXPECT_EQ(list->calibrations(0).calibration().id(), id);
}

TEST_F(FeedbackTest, TheSameRequestIdMakesOneReport) {
  v1::CreateJobReportRequest request = ReportOf(Recommended(), 1.1);
  request.set_request_id("r-1");
  const auto first = client().CreateJobReport(request);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto again = client().CreateJobReport(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(first->DebugString(), again->DebugString());
  EXPECT_EQ(Measured().size(), 1U);
  request.set_note("another");
  EXPECT_EQ(Reason(client().CreateJobReport(request).status()), "REQUEST_ID_REUSED");
  EXPECT_EQ(Measured().size(), 1U);
}

TEST_F(FeedbackTest, AWholeQuestionNeedsNoStudy) {
  v1::CreateJobReportRequest request;
  *request.mutable_model() = SmallQuestion().model();
  *request.mutable_workload() = SmallQuestion().workload();
  *request.mutable_cluster() = SmallQuestion().cluster();
  request.mutable_plan()->set_tensor_parallel(8);
  request.set_framework_version("0.12");
  request.set_outcome("oom");
  EXPECT_THAT(BadFields(client().CreateJobReport(request).status()),
              ElementsAre("framework_version"));  // the framework is not stated
  request.mutable_workload()->mutable_framework()->set_name("megatron-core");
  const auto kept = client().CreateJobReport(request);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->report().outcome(), "oom");
  EXPECT_EQ(kept->report().study_id(), "");
  const auto whole = client().GetMeasurement(kept->report().id());
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->measurement().workload().framework().version(), "0.12");
  EXPECT_GT(kept->report().expected().step_time_seconds(), 0);
  EXPECT_FALSE(kept->report().has_step_time_ratio());
  EXPECT_FALSE(kept->has_recommended_step_time_seconds());
}

TEST_F(FeedbackTest, EveryBadFieldIsNamed) {
  v1::CreateJobReportRequest request;
  *request.mutable_model() = SmallQuestion().model();
  request.mutable_model()->set_layer_count(0);
  *request.mutable_workload() = SmallQuestion().workload();
  request.set_rank(1);
  request.set_outcome("fine");
  request.set_step_time_seconds(-1);
  request.set_peak_memory_bytes(-1);
  request.set_note(std::string(5000, 'x'));
  request.set_request_id("");
  EXPECT_THAT(BadFields(client().CreateJobReport(request).status()),
              UnorderedElementsAre("model.layer_count", "cluster", "plan", "rank", "outcome",
                                   "step_time_seconds", "peak_memory_bytes", "note", "request_id"));
  EXPECT_THAT(Measured(), testing::IsEmpty());
}

TEST_F(FeedbackTest, BadFieldsOfAStudysReportAreNamedBesideItsOwn) {
  const v1::RecommendResponse answer = Recommended();
  v1::CreateJobReportRequest request = ReportOf(answer, 1);
  request.set_rank(6);
  request.clear_step_time_seconds();
  EXPECT_THAT(BadFields(client().CreateJobReport(request).status()),
              UnorderedElementsAre("rank", "step_time_seconds"));
  request = ReportOf(answer, 1);
  *request.mutable_model() = SmallQuestion().model();
  request.mutable_plan()->set_tensor_parallel(3);  // does not divide 8 devices
  request.set_rank(1);
  EXPECT_THAT(BadFields(client().CreateJobReport(request).status()),
              testing::IsSupersetOf({"rank", "model"}));
  request = ReportOf(answer, 1);
  request.mutable_plan()->set_tensor_parallel(3);
  EXPECT_THAT(BadFields(client().CreateJobReport(request).status()),
              ElementsAre("plan.data_parallel", "plan.tensor_parallel"));
  const auto too_fast = client().CreateJobReport(ReportOf(answer, 0.001));  // ms for s
  EXPECT_THAT(BadFields(too_fast.status()), ElementsAre("step_time_seconds"));
  request = ReportOf(answer, 1);
  request.set_study_id("study-none");
  EXPECT_TRUE(absl::IsNotFound(client().CreateJobReport(request).status()));
}

// Milliseconds that were stated as seconds make a step a thousand times too long.
TEST_F(FeedbackTest, AnImplausiblyLongStepIsAskedAbout) {
  const v1::RecommendResponse answer = Recommended();
  v1::CreateJobReportRequest request = ReportOf(answer, 100.1);
  request.set_request_id("r");
  const absl::Status asked = client().CreateJobReport(request).status();
  EXPECT_EQ(Reason(asked), "UNLIKELY_STEP_TIME");
  EXPECT_THAT(BadFields(asked), ElementsAre("step_time_seconds"));
  const double expected = answer.result().plans(0).estimate().step_time_seconds();
  EXPECT_THAT(
      FieldViolations(asked)[0].description,
      testing::AllOf(testing::StartsWith(fmt::format("{}; ", request.step_time_seconds())),
                     HasSubstr(fmt::format("expected to take {:.3g} seconds", expected)),
                     HasSubstr("more than 100 times"), HasSubstr("is the value in seconds?"),
                     HasSubstr("is_confirmed (--confirm)")));
  EXPECT_THAT(Measured(), testing::IsEmpty());

  request.set_is_confirmed(true);
  const auto kept = client().CreateJobReport(request);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_NEAR(kept->report().step_time_ratio(), 100.1, 1e-9);
  // A stored report is not asked about again.
  request.clear_is_confirmed();
  const auto again = client().CreateJobReport(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->DebugString(), kept->DebugString());
}

TEST_F(FeedbackTest, AStepAtTheLimitOfWhatIsAskedAboutIsKept) {
  EXPECT_TRUE(client().CreateJobReport(ReportOf(Recommended(), 100)).ok());
}

TEST_F(FeedbackTest, EveryImplausiblyLongStepOfABatchIsNamed) {
  const v1::RecommendResponse answer = Recommended();
  v1::BatchCreateJobReportsRequest batch;
  for (const double slower : {1.0, 1000.0, 1.1, 500.0, 2000.0}) {
    *batch.add_requests() = ReportOf(answer, slower);
  }
  batch.mutable_requests(4)->set_is_confirmed(true);
  const absl::Status asked = client().BatchCreateJobReports(batch).status();
  EXPECT_EQ(Reason(asked), "UNLIKELY_STEP_TIME");
  EXPECT_THAT(BadFields(asked), UnorderedElementsAre("requests[1].step_time_seconds",
                                                     "requests[3].step_time_seconds"));
  EXPECT_THAT(Measured(), testing::IsEmpty());
  batch.mutable_requests(1)->set_is_confirmed(true);
  batch.mutable_requests(3)->set_outcome("hang");  // its time says nothing about a step
  batch.mutable_requests(3)->clear_step_time_seconds();
  const auto kept = client().BatchCreateJobReports(batch);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->responses_size(), 5);
}

TEST_F(FeedbackTest, TheBaselineAndAnotherPlanCanBeReported) {
  const v1::RecommendResponse answer = Recommended();
  v1::CreateJobReportRequest request = ReportOf(answer, 1);
  request.set_rank(0);
  const auto baseline = client().CreateJobReport(request);
  ASSERT_TRUE(baseline.ok()) << baseline.status();
  EXPECT_EQ(baseline->report().plan_digest(), answer.result().baseline().plan_digest());
  request.clear_rank();
  *request.mutable_plan() = answer.result().plans(2).plan();
  const auto other = client().CreateJobReport(request);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->report().plan_digest(), answer.result().plans(2).plan_digest());
  EXPECT_FALSE(other->has_recommended_step_time_seconds());
}

TEST_F(FeedbackTest, AStudyWithoutAnAnswerHasNoPlanToReportOn) {
  v1::TuneRequest big = BigQuestion();
  big.mutable_cluster()->mutable_pools(0)->set_node_count(1);
  big.mutable_cluster()->mutable_pools(0)->set_devices_per_node(1);
  const std::string id = Create(big)->study().id();
  std::vector<v1::WatchStudyResponse> events;
  ASSERT_TRUE(Watch(id, events).ok());
  v1::CreateJobReportRequest request;
  request.set_study_id(id);
  request.set_outcome("oom");
  EXPECT_EQ(Reason(client().CreateJobReport(request).status()), "STUDY_WITHOUT_PLANS");
}

TEST_F(FeedbackTest, ABatchIsKeptWhollyOrNotAtAll) {
  const v1::RecommendResponse answer = Recommended();
  v1::BatchCreateJobReportsRequest batch;
  for (int i = 0; i < 5; ++i) {
    *batch.add_requests() = ReportOf(answer, 1.0 + 0.01 * i);
    batch.mutable_requests(i)->set_request_id("r-" + std::to_string(i));
  }
  batch.mutable_requests(3)->set_outcome("fine");
  batch.mutable_requests(4)->clear_step_time_seconds();
  EXPECT_THAT(BadFields(client().BatchCreateJobReports(batch).status()),
              UnorderedElementsAre("requests[3].outcome", "requests[4].step_time_seconds"));
  EXPECT_THAT(Measured(), testing::IsEmpty());

  batch.mutable_requests()->DeleteSubrange(3, 2);
  const auto kept = client().BatchCreateJobReports(batch);
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_EQ(kept->responses_size(), 3);
  EXPECT_EQ(kept->responses(2).report().sequence(), 3);
  EXPECT_NEAR(kept->responses(2).report().step_time_ratio(), 1.02, 1e-12);
  EXPECT_EQ(client().BatchCreateJobReports(batch)->DebugString(), kept->DebugString());
  EXPECT_EQ(Measured().size(), 3U);
}

TEST_F(FeedbackTest, ABatchHasALimit) {
  EXPECT_THAT(BadFields(client().BatchCreateJobReports({}).status()), ElementsAre("requests"));
  v1::BatchCreateJobReportsRequest batch;
  for (int i = 0; i <= kMaxReports; ++i) batch.add_requests()->set_outcome("oom");
  EXPECT_THAT(BadFields(client().BatchCreateJobReports(batch).status()), ElementsAre("requests"));
}

TEST_F(FeedbackTest, DriftIsWarnedOfAtOnceAndInLists) {
  const v1::RecommendResponse answer = Recommended();
  v1::BatchCreateJobReportsRequest batch;
  for (int i = 0; i < 3; ++i) *batch.add_requests() = ReportOf(answer, 3);
  const auto kept = client().BatchCreateJobReports(batch);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_FALSE(kept->responses(2).report().is_within_interval());
  // The last of the three reports has the warning.
  EXPECT_THAT(kept->responses(0).warnings(), testing::IsEmpty());
  ASSERT_EQ(kept->responses(2).warnings_size(), 1);
  EXPECT_THAT(kept->responses(2).warnings(0),
              HasSubstr("the newest 3 runs on nvidia-a100-sxm4-80gb"));
  EXPECT_THAT(kept->responses(2).warnings(0), HasSubstr("3.00 times"));
  const auto list = client().ListJobReports({});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->reports_size(), 3);
  EXPECT_THAT(list->warnings(), ElementsAre(kept->responses(2).warnings(0)));
  v1::ListJobReportsRequest early;
  early.mutable_filter()->set_up_to_sequence(2);
  EXPECT_THAT(client().ListJobReports(early)->warnings(), testing::IsEmpty());
}

TEST_F(FeedbackTest, ListsArePagedFilteredAndRanked) {
  const v1::RecommendResponse answer = Recommended();
  v1::BatchCreateJobReportsRequest batch;
  for (const double slower : {1.03, 1.01, 1.02}) *batch.add_requests() = ReportOf(answer, slower);
  batch.add_requests()->set_study_id(answer.study_id());
  batch.mutable_requests(3)->set_outcome("crash");
  ASSERT_TRUE(client().BatchCreateJobReports(batch).ok());

  v1::ListJobReportsRequest page;
  page.set_page_size(3);
  const auto first = client().ListJobReports(page);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->reports(0).outcome(), "crash");  // the newest
  page.set_page_token(first->next_page_token());
  const auto second = client().ListJobReports(page);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ(second->reports_size(), 1);
  EXPECT_EQ(second->reports(0).sequence(), 1);
  EXPECT_EQ(second->next_page_token(), "");

  v1::ListMeasurementsRequest fastest;
  fastest.set_order("fastest");
  const auto ranked = client().ListMeasurements(fastest);
  ASSERT_TRUE(ranked.ok()) << ranked.status();
  std::vector<std::int64_t> sequences;
  for (const v1::Measurement& row : ranked->measurements()) {
    sequences.push_back(row.sequence());
  }
  EXPECT_THAT(sequences, ElementsAre(2, 3, 1));
  v1::ListMeasurementsRequest crashed;
  crashed.mutable_filter()->set_outcome("crash");
  EXPECT_EQ(client().ListMeasurements(crashed)->measurements_size(), 1);
  crashed.mutable_filter()->set_source("trial");
  EXPECT_EQ(client().ListMeasurements(crashed)->measurements_size(), 0);
}

TEST_F(FeedbackTest, BadListsAndIdsAreRefused) {
  v1::ListMeasurementsRequest request;
  request.mutable_filter()->set_outcome("fine");
  request.mutable_filter()->set_source("dream");
  EXPECT_THAT(BadFields(client().ListMeasurements(request).status()),
              UnorderedElementsAre("filter.outcome", "filter.source"));
  request.Clear();
  request.set_order("slowest");
  EXPECT_THAT(BadFields(client().ListMeasurements(request).status()), ElementsAre("order"));
  request.Clear();
  request.set_page_size(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(client().ListMeasurements(request).status()));
  v1::ListJobReportsRequest reports;
  reports.mutable_filter()->set_source("trial");
  EXPECT_THAT(BadFields(client().ListJobReports(reports).status()), ElementsAre("filter.source"));
  EXPECT_TRUE(absl::IsNotFound(client().GetMeasurement("m-none").status()));
  EXPECT_TRUE(absl::IsNotFound(client().GetCalibration("calibration-none").status()));
}

TEST_F(FeedbackTest, LaterAnswersMoveAndSayWhy) {
  const v1::RecommendResponse before = Recommended();
  EXPECT_FALSE(before.result().has_calibration());
  for (int i = 0; i < 3; ++i) {
    const auto kept = client().CreateJobReport(ReportOf(before, 1.1));
    ASSERT_TRUE(kept.ok()) << kept.status();
  }
  const v1::RecommendResponse after = Recommended();
  const auto time_of = [](const v1::RecommendResponse& answer, const std::string& digest) {
    for (const v1::RankedPlan& plan : answer.result().plans()) {
      if (plan.plan_digest() == digest) return plan.estimate().step_time_seconds();
    }
    return 0.0;
  };
  const std::string digest = before.result().plans(0).plan_digest();
  const double moved = time_of(after, digest) / time_of(before, digest);
  EXPECT_GT(moved, 1.05);
  EXPECT_LE(moved, 1.1);
  const v1::Calibration& learnt = after.result().calibration();
  EXPECT_EQ(learnt.run_count(), 3);
  EXPECT_EQ(learnt.history_sequence(), 3);
  std::set<std::string> evidence;
  for (const v1::PastRun& run : learnt.evidence()) {
    evidence.insert(run.measurement_id());
    EXPECT_NEAR(run.similarity_ratio(), 1, 1e-12);
  }
  std::set<std::string> reported;
  for (const v1::Measurement& row : Measured()) reported.insert(row.id());
  EXPECT_EQ(evidence, reported);
  // The calibration that the answer used can be read for ever.
  const auto kept = client().GetCalibration(learnt.id());
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->calibration().calibration().DebugString(), learnt.DebugString());
}

TEST_F(FeedbackTest, AnExportIsImportedElsewhereOnce) {
  const v1::RecommendResponse answer = Recommended();
  for (const double slower : {1.0, 1.1}) {
    ASSERT_TRUE(client().CreateJobReport(ReportOf(answer, slower)).ok());
  }
  std::string lines;
  const auto take = [&](const std::string& part) {
    lines += part;
    return absl::OkStatus();
  };
  ASSERT_TRUE(client().ExportHistory({}, take).ok());
  EXPECT_THAT(lines, HasSubstr(Measured()[0].id()));

  const auto import = [](Client& to, const v1::ImportHistoryRequest& options, std::string all) {
    return to.ImportHistory(options, [&all] {
      std::string part = all.substr(0, 100);
      all.erase(0, part.size());
      return part;
    });
  };
  v1::ImportHistoryRequest options;
  const auto again = import(client(), options, lines);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->imported_count(), 0);
  EXPECT_EQ(again->skipped_count(), 2);

  RunningServer other;
  options.set_validate_only(true);
  const auto checked = import(other.client(), options, lines);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->imported_count(), 2);
  EXPECT_EQ(other.client().ListMeasurements({})->measurements_size(), 0);
  options.set_validate_only(false);
  ASSERT_TRUE(import(other.client(), options, lines).ok());
  EXPECT_EQ(other.client().ListMeasurements({})->DebugString(),
            client().ListMeasurements({})->DebugString());

  std::string damaged = lines;
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_FALSE(import(other.client(), options, damaged).ok());
  EXPECT_FALSE(import(other.client(), options, lines.substr(0, lines.size() / 2)).ok());
  options.set_conflict_policy("ours");
  EXPECT_THAT(BadFields(import(other.client(), options, lines).status()),
              ElementsAre("conflict_policy"));
}

TEST_F(FeedbackTest, ABackupIsAStoreOfItsOwn) {
  ASSERT_TRUE(client().CreateJobReport(ReportOf(Recommended(), 1)).ok());
  const auto backup = client().BackupStore();
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_THAT(backup->file_name(), Not(HasSubstr("/")));
  const auto copy = Recorder::Open({.path = File(backup->file_name()), .read_only = true});
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(*copy->LastMeasurementSequence(), 1);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
