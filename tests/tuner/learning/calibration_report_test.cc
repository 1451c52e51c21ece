#include "server/tuner/learning/calibration_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/prepared.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Returns a run that took `time` times the modelled time.
HistoryRow Row(const Question& question, double time, const std::string& measurement_id = "") {
  const PlanRequest plan = {.tensor_parallel = 2};
  const Estimate modelled = EvaluatePlan({.question = question, .plan = plan}, Known(), {}).value();
  return {.question = question,
          .plan = plan,
          .step_time = modelled.step_time * time,
          .measurement_id = measurement_id};
}

Question Asked() {
  Question question = TinyQuestion();
  question.workload.framework_name = "megatron-lm";
  return question;
}

Question OtherModel() {
  Question question = Asked();
  question.model.name = "deeper";
  question.model.layer_count = 8;
  return question;
}

Question OtherVersion() {
  Question question = OtherModel();
  question.workload.framework_version = "2022";
  return question;
}

std::optional<CalibrationReport> Reported(std::vector<HistoryRow> history) {
  const StudyRequest request = {.question = Asked(), .history = std::move(history)};
  return Prepared(request).learnt.report;
}

TEST(CalibrationReportTest, IsAbsentWhereNothingWasLearnt) {
  EXPECT_EQ(Reported({}), std::nullopt);
  HistoryRow crashed = Row(Asked(), 1);
  crashed.outcome = Outcome::kCrash;
  crashed.step_time.reset();
  HistoryRow elsewhere = Row(Asked(), 3);
  elsewhere.question.cluster.pools[0].chip = "nvidia-h100-sxm5-80gb";
  EXPECT_EQ(Reported({crashed, elsewhere}), std::nullopt);
}

TEST(CalibrationReportTest, NamesItsRunsTheMostAlikeFirst) {
  HistoryRow failed = Row(Asked(), 1, "m-failed");
  failed.outcome = Outcome::kOom;
  failed.step_time.reset();
  failed.plan.micro_batch_size = 4;
  const auto report = Reported(
      {Row(OtherVersion(), 1.06), Row(OtherModel(), 1.05, "m-other"), failed, Row(Asked(), 1.04)});
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->run_count, 4);
  EXPECT_GT(report->time_ratio, 1);
  EXPECT_EQ(report->chip, "nvidia-a100-sxm4-80gb");
  ASSERT_EQ(report->evidence.size(), 4u);
  const auto own = std::ranges::find(report->evidence, Outcome::kOk, &PastRun::outcome);
  EXPECT_EQ(own->history_index, 3);
  EXPECT_EQ(own->similarity, 1);
  EXPECT_NEAR(own->time_ratio.value(), 1.04, 1e-12);
  EXPECT_EQ(own->memory_ratio, std::nullopt);
  const auto oom = std::ranges::find(report->evidence, Outcome::kOom, &PastRun::outcome);
  EXPECT_EQ(oom->measurement_id, "m-failed");
  EXPECT_EQ(oom->time_ratio, std::nullopt);
  EXPECT_EQ(report->evidence[2].measurement_id, "m-other");
  EXPECT_EQ(report->evidence[2].model_name, "deeper");
  EXPECT_EQ(report->evidence[2].similarity, 0.9);  // kTimePrior
  EXPECT_EQ(report->evidence[3].history_index, 0);
  EXPECT_EQ(report->evidence[3].similarity, 0.4);  // kOtherVersionSimilarity
}

// Rows of a store have ids, so their order does not matter.
TEST(CalibrationReportTest, DependsOnWhatWasMeasuredNotOnTheOrder) {
  std::vector<HistoryRow> rows = {Row(Asked(), 1.1, "m-1"), Row(OtherModel(), 1.2, "m-2"),
                                  Row(Asked(), 1.1, "m-3")};
  const auto before = Reported(rows);
  std::reverse(rows.begin(), rows.end());
  const auto after = Reported(rows);
  EXPECT_EQ(before->id, after->id);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(before->evidence[i].measurement_id, after->evidence[i].measurement_id) << i;
  }
  EXPECT_EQ(Reported(rows), after);
  rows.back().step_time = *rows.back().step_time * 1.001;
  EXPECT_NE(Reported(rows)->id, after->id);
  rows.pop_back();
  EXPECT_NE(Reported(rows)->id, after->id);
}

// Ten runs of another model as modelled, and three own ones that took twice.
TEST(CalibrationReportTest, RunsThatWereLeftOutAreNoEvidence) {
  std::vector<HistoryRow> rows(10, Row(OtherModel(), 1));
  for (int i = 0; i < 3; ++i) rows.push_back(Row(Asked(), 2));
  const auto report = Reported(rows);
  EXPECT_EQ(report->run_count, 3);
  for (const PastRun& run : report->evidence) EXPECT_EQ(run.similarity, 1);
}

TEST(CalibrationReportTest, ShowsTwentyOfMany) {
  const std::vector<HistoryRow> rows(30, Row(Asked(), 1.1));
  const auto report = Reported(rows);
  EXPECT_EQ(report->run_count, 30);
  EXPECT_EQ(report->evidence.size(), 20u);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
