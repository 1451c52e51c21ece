#include "cli/reports/calibration_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <sstream>
#include <string>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::Not;

v1::StepCheck& AddStep(v1::ChipCalibration& calibration) {
  v1::StepCheck& step = *calibration.add_steps();
  step.set_plan("dp2 mb1");
  step.set_measured_seconds(0.75);
  return step;
}

// The measured 0.75 s are 1.5 times the 0.5 s that were expected before and 0.94 of the 0.8 s now.
TEST(CalibrationReportTest, SaysHowOftenLongerAStepRanThanExpected) {
  v1::ChipCalibration calibration;
  v1::StepCheck& step = AddStep(calibration);
  step.set_expected_before_seconds(0.5);
  step.set_expected_seconds(0.8);
  step.set_expected_low_seconds(0.6);
  step.set_expected_high_seconds(1.0);
  const std::string text = CalibrationReportText(calibration, 100);
  EXPECT_THAT(text, testing::ContainsRegex("expected before +ran +expected now +ran"));
  EXPECT_THAT(text, testing::ContainsRegex("750 ms +500 ms +1\\.50 x +800 ms +0\\.94 x"));
  EXPECT_THAT(text, HasSubstr("ran: measured over expected"));
}

TEST(CalibrationReportTest, SaysWhyNothingCouldBeExpected) {
  v1::ChipCalibration calibration;
  AddStep(calibration).set_error("chip has no bf16");
  EXPECT_THAT(CalibrationReportText(calibration, 100),
              testing::ContainsRegex("750 ms +- +- +- +- +chip has no bf16"));
}

// The chip had no peak before; 0.94 of the 0.8 s expected now is reported all the same.
TEST(CalibrationReportTest, SaysWhatIsExpectedNowWhereNothingWasBefore) {
  v1::ChipCalibration calibration;
  v1::StepCheck& step = AddStep(calibration);
  step.set_error_before("chip has no fp32");
  step.set_expected_seconds(0.8);
  step.set_expected_low_seconds(0.6);
  step.set_expected_high_seconds(1.0);
  const std::string text = CalibrationReportText(calibration, 100);
  EXPECT_THAT(text, testing::ContainsRegex("750 ms +- +- +800 ms +0\\.94 x +600 ms .. 1"));
  EXPECT_THAT(text, HasSubstr("  dp2 mb1, before: chip has no fp32\n"));
}

TEST(CalibrationReportTest, TheVerdictNamesItsReasons) {
  v1::ChipCalibration calibration;
  calibration.set_name("node7");
  calibration.set_chip("acme-x1");
  calibration.set_device_name("X1");
  calibration.set_verdict("not_ready");
  calibration.add_reasons("gemm, bf16 is poor");
  EXPECT_THAT(
      CalibrationReportText(calibration, 100),
      testing::StartsWith("calibration node7 of acme-x1, measured on X1: not ready, because\n"
                          "  gemm, bf16 is poor\n\n"));
}

TEST(CalibrationReportTest, LimitsAreOfBothFiguresOfTheError) {
  v1::ChipCalibration calibration;
  v1::OperatorFit& fit = *calibration.add_operators();
  fit.set_name("overlap");
  fit.set_limit_ratio(0.15);
  fit.set_p90_limit_ratio(0.75);
  fit.set_verdict("good");
  EXPECT_THAT(CalibrationReportText(calibration, 100),
              testing::ContainsRegex("15 / 75 % +good, not needed"));
}

// Every line of a report that is wide in each of its parts fits the columns.
TEST(CalibrationReportTest, LinesFitTheTerminal) {
  v1::ChipCalibration calibration;
  calibration.set_verdict("not_ready");
  calibration.add_reasons(
      "overlap_slowdown_ratio = 7; must be 0 to 2: repeat item overlap (all-reduces of 4096 to "
      "1048576 bytes)");
  v1::OperatorFit& fit = *calibration.add_operators();
  fit.set_name("stream");
  fit.set_verdict("assumed");
  fit.set_advice(
      "no working set of 67108864 bytes, twice the cache: microbench.py --only memory --again "
      "--max-bytes 67108864");
  v1::StepCheck& step = AddStep(calibration);
  step.set_plan("tp2 dp1 mb2 zero0, recompute none");
  step.set_error_before("workload.precision = \"fp32\"; acme-x1 has a known peak for bf16 only");
  step.set_expected_seconds(0.8);
  v1::FigureChange& change = *calibration.add_changes();
  change.set_name("collective_reduce_scatter_2_ranks");
  change.set_before(
      "alpha_seconds 0.00162085, bandwidth_bytes_per_second 393365029, half_bytes 1, curve of 9 "
      "sizes");
  change.set_after(change.before());
  change.set_provenance("measured");
  calibration.add_warnings(
      "GEMM constants are fitted to fp32, the fastest precision of the file, but the chip's half "
      "precision is bf16: microbench.py --precisions bf16,fp32");
  for (const int columns : {80, 100, 120, 200}) {
    std::istringstream lines(CalibrationReportText(calibration, columns));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
    }
  }
  EXPECT_THAT(CalibrationReportText(calibration, 80), HasSubstr("393365029"));
}

TEST(CalibrationReportTest, HasNoTableWithoutSteps) {
  EXPECT_THAT(CalibrationReportText({}, 100), Not(HasSubstr("whole step")));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
