#include "cli/reports/comparison.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "server/convert/question_answers.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::Not;

v1::Estimate Parse(const char* text) {
  v1::Estimate estimate;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &estimate));
  return estimate;
}

constexpr int kColumns = 150;

v1::Estimate Slow() {
  return Parse(R"(step_time_seconds: 12 step_time_low_seconds: 10 step_time_high_seconds: 14
                  peak_memory_bytes: 64424509440 reserved_memory_bytes: 68719476736
                  memory_capacity_bytes: 85899345920 fits: true
                  breakdown_seconds { key: "matmul" value: 8 }
                  breakdown_seconds { key: "recompute" value: 4 }
                  memory_breakdown_bytes { key: "activations" value: 10737418240 })");
}

v1::Estimate Fast() {
  return Parse(R"(step_time_seconds: 8 step_time_low_seconds: 7 step_time_high_seconds: 9
                  peak_memory_bytes: 85899345920 reserved_memory_bytes: 90194313216
                  memory_capacity_bytes: 85899345920
                  breakdown_seconds { key: "matmul" value: 7.5 }
                  breakdown_seconds { key: "host" value: 0.5 }
                  memory_breakdown_bytes { key: "activations" value: 32212254720 })");
}

TEST(CompareEstimates, SubtractsEveryTermOfEither) {
  const v1::PlanComparison comparison = CompareEstimates(Slow(), Fast());
  EXPECT_EQ(comparison.step_time_difference_seconds(), -4);
  EXPECT_EQ(comparison.breakdown_difference_seconds().at("matmul"), -0.5);
  EXPECT_EQ(comparison.breakdown_difference_seconds().at("recompute"), -4);
  EXPECT_EQ(comparison.breakdown_difference_seconds().at("host"), 0.5);
  EXPECT_EQ(comparison.memory_difference_bytes().at("activations"), 21474836480);
}

// The bounds of the ratio, 0.5 and 0.75, are -6 s and -3 s of the first plan's 12 s.
TEST(ComparisonReport, StatesTheDifferenceAndTheIds) {
  v1::PlanComparison comparison = CompareEstimates(Slow(), Fast());
  v1::ComparedPair pair;
  pair.set_faster_probability_ratio(0.02);
  pair.set_step_time_ratio_low(0.5);
  pair.set_step_time_ratio_high(0.75);
  AddCertainty(pair, comparison);
  comparison.set_first_plan_digest("aaaa");
  comparison.set_second_plan_digest("bbbb");
  const std::string report = ComparisonReport(comparison, kColumns);
  EXPECT_THAT(report, HasSubstr("The second takes -4.00 s a step compared with the first; between "
                                "-6.00 s and -3.00 s with a probability of 80 %.\n"));
  EXPECT_THAT(report, HasSubstr("first (plan aaaa): "));
  EXPECT_THAT(report, HasSubstr("second (plan bbbb): "));
}

TEST(ComparisonReport, LargestDifferenceFirst) {
  const std::string report = ComparisonReport(CompareEstimates(Slow(), Fast()), kColumns);
  EXPECT_THAT(report, HasSubstr("The second is 1.50x as fast: 8.00 s against 12.0 s a step.\n"));
  EXPECT_THAT(report, HasSubstr("\nBut it does not fit.\n"));
  EXPECT_THAT(report, Not(HasSubstr("overlap")));
  EXPECT_LT(report.find("recompute"), report.find("matmul"));
  EXPECT_THAT(report, HasSubstr("-4.00 s\n"));
  EXPECT_THAT(report, HasSubstr("+20.0 GiB\n"));
  EXPECT_THAT(report, HasSubstr("in use 84.0 GiB of 80.0 GiB, does not fit\n"));
}

TEST(EstimateReport, SaysWhatAPlanTakes) {
  v1::Estimate estimate = Slow();
  estimate.set_id("plan.yaml");
  estimate.set_provenance("assumed");
  estimate.add_warnings("mind the gap");
  for (const int columns : {80, 120}) {
    std::string report = EstimateReport(estimate, columns);
    EXPECT_THAT(report, HasSubstr("matmul     8.00 s  66.7 %"));
    EXPECT_THAT(report, HasSubstr("\nWarnings\n  mind the gap\n"));
    std::ranges::replace(report, '\n', ' ');
    EXPECT_THAT(report, HasSubstr("plan.yaml: 12.0 s a step; between 10.0 s and 14.0 s with a "
                                  "probability of 80 %."));
    EXPECT_THAT(report, HasSubstr("rests on assumed figures."));
    EXPECT_THAT(report, HasSubstr("peak 60.0 GiB, in use 64.0 GiB of 80.0 GiB, fits"));
  }
}

TEST(ComparisonReport, StatesTheProbability) {
  v1::Estimate near = Slow();
  near.set_step_time_seconds(11);
  v1::PlanComparison comparison = CompareEstimates(Slow(), near);
  comparison.set_first_is_faster_probability_ratio(0.25);
  EXPECT_THAT(
      ComparisonReport(comparison, kColumns),
      HasSubstr("\nIf both run, it is the faster one with a probability of 75 %, although "
                "their 80 % intervals overlap: errors that both estimates share cancel.\n"));
  comparison = CompareEstimates(Fast(), Slow());
  comparison.set_first_is_faster_probability_ratio(0.999);
  EXPECT_THAT(ComparisonReport(comparison, kColumns),
              HasSubstr("\nIf both run, it is the faster one with a probability of > 99 %.\n"));
}

TEST(ComparisonReport, NamesTheRunsThatBothLeanOn) {
  constexpr char kHeading[] = "Learnt from measured runs";
  v1::Estimate first = Slow();
  v1::Estimate second = Fast();
  EXPECT_THAT(ComparisonReport(CompareEstimates(first, second), kColumns),
              Not(HasSubstr(kHeading)));
  for (v1::Estimate* estimate : {&first, &second}) {
    estimate->mutable_calibration()->set_id("calibration-1");
    estimate->mutable_calibration()->add_evidence()->set_measurement_id("m-7");
  }
  const std::string same = ComparisonReport(CompareEstimates(first, second), kColumns);
  EXPECT_THAT(same, HasSubstr("Learnt from measured runs\n"));
  EXPECT_EQ(same.find("closest: measurement m-7"), same.rfind("closest: measurement m-7"));
  second.mutable_calibration()->set_id("calibration-2");
  const std::string each = ComparisonReport(CompareEstimates(first, second), kColumns);
  EXPECT_THAT(each, HasSubstr("Learnt from measured runs, of the first\n"));
  EXPECT_THAT(each, HasSubstr("Learnt from measured runs, of the second\n"));
  EXPECT_THAT(each, HasSubstr("calibration-2"));
}

TEST(ComparisonReport, SaysWhereItIsUnsureAndWhereNothingDiffers) {
  v1::Estimate near = Slow();
  near.set_step_time_seconds(12.5);
  EXPECT_THAT(ComparisonReport(CompareEstimates(Slow(), near), kColumns),
              HasSubstr("The first is 1.04x as fast"));
  EXPECT_THAT(ComparisonReport(CompareEstimates(Slow(), near), kColumns),
              HasSubstr("intervals overlap"));
  const std::string same = ComparisonReport(CompareEstimates(Slow(), Slow()), kColumns);
  EXPECT_THAT(same, HasSubstr("Both take 12.0 s a step.\n"));
  EXPECT_THAT(same, HasSubstr("no term differs"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
