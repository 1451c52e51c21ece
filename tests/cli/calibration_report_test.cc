#include "cli/calibration_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::StepCheck& AddStep(v1::ChipCalibration& calibration) {
  v1::StepCheck& step = *calibration.add_steps();
  step.set_plan("dp2 mb1");
  step.set_measured_seconds(0.75);
  return step;
}

// 0.75 s measured: 1.5 times the 0.5 s that were expected before, 0.94 of the 0.8 s of now.
TEST(CalibrationReportTest, SaysHowOftenLongerAStepRanThanExpected) {
  v1::ChipCalibration calibration;
  v1::StepCheck& step = AddStep(calibration);
  step.set_expected_before_seconds(0.5);
  step.set_expected_seconds(0.8);
  step.set_expected_low_seconds(0.6);
  step.set_expected_high_seconds(1.0);
  const std::string text = CalibrationReportText(calibration);
  EXPECT_THAT(text, testing::ContainsRegex("expected before +ran +expected now +ran"));
  EXPECT_THAT(text, testing::ContainsRegex("750 ms +500 ms +1\\.50 x +800 ms +0\\.94 x"));
  EXPECT_THAT(text, HasSubstr("ran: measured over expected"));
}

TEST(CalibrationReportTest, SaysWhyNothingCouldBeExpected) {
  v1::ChipCalibration calibration;
  AddStep(calibration).set_error("chip has no bf16");
  EXPECT_THAT(CalibrationReportText(calibration),
              testing::ContainsRegex("750 ms +- +- +- +- +chip has no bf16"));
}

TEST(CalibrationReportTest, HasNoTableWithoutSteps) {
  EXPECT_THAT(CalibrationReportText({}), Not(HasSubstr("whole step")));
}

}  // namespace
}  // namespace meshwright
