#include "server/tuner/chip_calibration/chip_calibration.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/fit/attention_fit.h"
#include "estimator/fit/gemm_fit.h"
#include "estimator/fit/measured.h"
#include "estimator/terms/collective.h"
#include "estimator/terms/kernel.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "server/tuner/chip_calibration/calibrated_chip.h"
#include "server/tuner/chip_calibration/chip_draft.h"
#include "server/tuner/chip_calibration/measurements.h"
#include "tests/tuner/measured_chip.h"
#include "vendor_models/catalogue.h"
#include "vendor_models/chip_file.h"
#include "vendor_models/chip_text.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;

TEST(ChipCalibrationTest, EveryMeasuredOperatorIsFitted) {
  const ChipCalibration calibration = Calibrated(AllItems());
  const ChipSpec& spec = calibration.entry.spec;
  EXPECT_NEAR(spec.stream_efficiency, 1.7e12 / 2.039e12, 1e-4);  // over the published bandwidth
  EXPECT_NEAR(spec.memory_bandwidth.rate, 2.039e12, 1);          // which stays
  EXPECT_NEAR(spec.peak.at(Precision::kBf16).rate, 312e12, 1);
  // The reached figures stand beside them and replace what others measured.
  for (const char* reached :
       {"measured_memory_bandwidth_bytes_per_second", "measured_peak_bf16_flops_per_second"}) {
    const ChipFigure* figure = FindFigure(calibration.entry, reached);
    ASSERT_NE(figure, nullptr) << reached;
    EXPECT_EQ(figure->provenance, Provenance::kMeasured);
    EXPECT_THAT(figure->source, HasSubstr("board 7"));
  }
  EXPECT_NEAR(spec.memory_bound_fixed.count(), 5e-6, 3e-7);
  EXPECT_NEAR(spec.memory_bound_efficiency, 1e12 / 2.039e12, 0.01);
  EXPECT_NEAR(spec.sustained_time_ratio, 1.3, 1e-9);
  ASSERT_EQ(spec.collectives.size(), Base().spec.collectives.size());  // three of them are new
  EXPECT_EQ(spec.collectives.back().curve.size(), 9u);
  EXPECT_EQ(spec.collectives.back().kind, CollectiveKind::kReduceScatter);
  EXPECT_TRUE(IsReady(calibration));
  for (const OperatorFit& fit : calibration.operators) {
    if (!fit.is_needed) continue;
    EXPECT_EQ(fit.verdict,
              fit.name == "sustained gemm" ? OperatorVerdict::kMeasured : OperatorVerdict::kGood)
        << fit.name;
  }
}

std::string HostCopies() {
  const auto row = [](const char* direction, bool is_pinned, double bytes, double rate) {
    return fmt::format(R"({{"direction": "{}", "is_pinned": {}, "bytes": {}, "time_seconds": {}}})",
                       direction, is_pinned, bytes, 1e-5 + bytes / rate);
  };
  return Item(
      "host_link",
      {row("host_to_device", true, 65536, 4e10), row("host_to_device", true, 268435456, 4e10),
       row("host_to_device", false, 268435456, 7e9), row("device_to_host", true, 268435456, 4e10)});
}

// Returns a row in which GEMMs and an all-reduce take equally long separately and `together` in
// parallel.
std::string Overlaps(const std::vector<double>& together) {
  std::vector<std::string> rows = {
      R"({"rank_count": 2, "bytes": 4096, "gemm_alone_seconds": 1, "collective_alone_seconds":)"
      R"( 0.01, "together_seconds": 2})"};  // of another order of magnitude: says nothing
  for (const double seconds : together) {
    rows.push_back(fmt::format(R"({{"rank_count": 2, "bytes": 1048576, "gemm_alone_seconds": 0.5,)"
                               R"( "collective_alone_seconds": 1, "together_seconds": {}}})",
                               seconds));
  }
  return Item("overlap", rows);
}

TEST(ChipCalibrationTest, TheHostLinkIsThatOfLargePinnedCopies) {
  const ChipCalibration calibration = Calibrated(AllItems() + ", " + HostCopies());
  EXPECT_NEAR(calibration.entry.spec.host_link.rate, 4e10, 1e8);
  EXPECT_EQ(OperatorOf(calibration, "host link").verdict, OperatorVerdict::kGood);
}

TEST(ChipCalibrationTest, OverlapIsWhatTheShorterPartCosts) {
  const ChipCalibration calibration = Calibrated(AllItems() + ", " + Overlaps({1.1, 1.15, 1.2}));
  EXPECT_NEAR(calibration.entry.spec.overlap_slowdown, 0.3, 1e-9);
  EXPECT_EQ(OperatorOf(calibration, "overlap").verdict, OperatorVerdict::kGood);
  EXPECT_NEAR(OperatorOf(calibration, "overlap").held_out.median_ratio, 0.05, 0.03);
}

TEST(ChipCalibrationTest, AnOverlapThatNoFileMayHoldIsLeftOut) {
  const ChipCalibration calibration = Calibrated(AllItems() + ", " + Overlaps({6, 6, 6}));
  EXPECT_EQ(calibration.entry.spec.overlap_slowdown, Base().spec.overlap_slowdown);
  EXPECT_THAT(WhyNotReady(calibration),
              Contains(HasSubstr("overlap_slowdown_ratio = 10; must be 0 to 2")));
  EXPECT_EQ(OperatorOf(calibration, "overlap").verdict, OperatorVerdict::kPoor);
  EXPECT_EQ(OperatorOf(calibration, "overlap").point_count, 3);  // one row says nothing
}

TEST(ChipCalibrationTest, RowsThatSayNothingAreNoOverlap) {
  const ChipCalibration calibration = Calibrated(AllItems() + ", " + Overlaps({}));
  EXPECT_EQ(OperatorOf(calibration, "overlap").verdict, OperatorVerdict::kAssumed);
  EXPECT_THAT(OperatorOf(calibration, "overlap").advice, HasSubstr("no usable row"));
  EXPECT_TRUE(IsReady(calibration));
}

TEST(ChipCalibrationTest, WhatIsPoorIsToBeMeasuredAgain) {
  const ChipCalibration calibration = Calibrated(AllItems() + ", " + Overlaps({1, 1.6, 2}));
  EXPECT_THAT(OperatorOf(calibration, "overlap").advice, HasSubstr("--only overlap --again"));
}

// Few plans need them; figures of a poor fit get low confidence.
TEST(ChipCalibrationTest, AChipIsReadyWithAPoorOverlap) {
  const ChipCalibration calibration = Calibrated(AllItems() + ", " + Overlaps({1, 1.6, 2}));
  EXPECT_EQ(OperatorOf(calibration, "overlap").verdict, OperatorVerdict::kPoor);
  EXPECT_TRUE(IsReady(calibration));
  EXPECT_EQ(FindFigure(calibration.entry, "overlap_slowdown_ratio")->confidence, Confidence::kLow);
}

// The median of the large ones counts: a single fast copy does not raise it.
TEST(ChipCalibrationTest, StreamsHaveAnError) {
  const ChipCalibration calibration = Calibrated(Item(
      "memory",
      {R"({"operation": "copy", "bytes": 1e9, "working_set_bytes": 1e9, "time_seconds": 1e-3})",
       R"({"operation": "scale", "bytes": 1e9, "working_set_bytes": 1e9, "time_seconds": 1e-3})",
       R"({"operation": "triad", "bytes": 1e9, "working_set_bytes": 1e9, "time_seconds": 6e-4})"}));
  EXPECT_NEAR(calibration.entry.spec.stream_efficiency, 1e12 / 2.039e12, 1e-4);
  EXPECT_EQ(OperatorOf(calibration, "stream").verdict, OperatorVerdict::kPoor);
}

TEST(ChipCalibrationTest, GemmsAreExpectedAsTheyWereMeasured) {
  const ChipCalibration calibration = Calibrated(AllItems());
  const MeasuredGemm unseen = {.shape = {.m = 4096, .n = 3072, .k = 3072}};
  EXPECT_NEAR(GemmTime(unseen, calibration.entry.spec) / GemmTime(unseen, Truth()), 1, 0.05);
  EXPECT_GT(GemmTime(unseen, Truth()) / GemmTime(unseen, Base().spec), 1.3);
  const OperatorFit& gemm =
      *std::find_if(calibration.operators.begin(), calibration.operators.end(),
                    [](const OperatorFit& f) { return f.name == "gemm"; });
  EXPECT_LT(gemm.held_out.median_ratio, 0.05);
  EXPECT_GT(gemm.before.median_ratio, 0.3);
}

TEST(ChipCalibrationTest, FiguresSayWhichCalibrationTheyAreFrom) {
  const ChipCalibration calibration = Calibrated(AllItems());
  EXPECT_THAT(calibration.entry.figures,
              Contains(testing::AllOf(
                  Field(&ChipFigure::name, "gemm_compute_efficiency_ratio"),
                  Field(&ChipFigure::provenance, Provenance::kFitted),
                  Field(&ChipFigure::source, HasSubstr("calibration board 7 on a board")))));
  EXPECT_THAT(calibration.changes, Contains(Field(&FigureChange::name, "sustained_time_ratio")));
}

TEST(ChipCalibrationTest, WhatIsNotMeasuredStaysAndIsSaid) {
  const ChipCalibration calibration = Calibrated(
      Streams(1.7e12) +
      R"(, "gemm": {"status": "failed", "reason": "no kernel image", "seconds": 0, "rows": []})");
  EXPECT_EQ(calibration.entry.spec.gemm, Base().spec.gemm);
  EXPECT_FALSE(IsReady(calibration));
  EXPECT_THAT(
      calibration.operators,
      Contains(testing::AllOf(Field(&OperatorFit::name, "gemm"),
                              Field(&OperatorFit::verdict, OperatorVerdict::kAssumed),
                              Field(&OperatorFit::advice, HasSubstr("failed (no kernel image)")))));
}

TEST(ChipCalibrationTest, APoorFitAsksForMoreShapes) {
  std::vector<std::string> rows;
  for (int i = 0; i < 40; ++i) {  // times that no form explains
    rows.push_back(fmt::format(
        R"({{"precision": "bf16", "pass": "forward", "m": {}, "n": {}, "k": 2048, "count": 1,)"
        R"( "accumulates_fp32": false, "time_seconds": {}}})",
        128 * (i + 1), 256 * (40 - i), i % 2 == 0 ? 1e-2 : 1e-3));
  }
  const ChipCalibration calibration = Calibrated(Item("gemm", rows));
  EXPECT_THAT(calibration.operators,
              Contains(testing::AllOf(Field(&OperatorFit::verdict, OperatorVerdict::kPoor),
                                      Field(&OperatorFit::advice, HasSubstr("200 more shapes")))));
  EXPECT_FALSE(IsReady(calibration));
}

TEST(ChipCalibrationTest, AnUnpublishedPeakIsTheBestMeasuredRate) {
  const auto catalogue = Catalogue::LoadBuiltIn();
  ASSERT_TRUE(catalogue.ok());
  const auto measurements = ParseMeasurements(FileOf(
      Item("gemm", {R"({"precision": "fp32", "pass": "forward", "m": 1000, "n": 1000, "k": 1000,)"
                    R"( "count": 1, "accumulates_fp32": false, "time_seconds": 0.02})"})));
  ASSERT_TRUE(measurements.ok()) << measurements.status();
  const auto calibration =
      CalibrateChip(**catalogue->Find("cpu-generic"), *measurements, "this machine");
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  // 2 x 1000^3 operations in 0.02 s.
  EXPECT_NEAR(calibration->entry.spec.peak.at(Precision::kFp32).rate, 1e11, 1);
}

TEST(ChipCalibrationTest, APrecisionWithoutAPeakGetsTheMeasuredOne) {
  const ChipEntry base = Base();  // has no FP8
  const auto measurements = ParseMeasurements(FileOf(
      Item("gemm", {R"({"precision": "fp8", "pass": "forward", "m": 1000, "n": 1000, "k": 1000,)"
                    R"( "count": 1, "accumulates_fp32": false, "time_seconds": 0.02})"})));
  ASSERT_TRUE(measurements.ok());
  const auto calibration = CalibrateChip(base, *measurements, "x");
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_TRUE(calibration->entry.spec.peak.contains(Precision::kFp8));
}

TEST(ChipCalibrationTest, TablesOfTheConstantsBeforeGoAndThatIsSaid) {
  ASSERT_FALSE(Base().spec.gemm_residuals.empty());
  const ChipCalibration calibration = Calibrated(AllItems());
  EXPECT_TRUE(calibration.entry.spec.gemm_residuals.empty());
  EXPECT_THAT(calibration.warnings, Contains(HasSubstr("gemm_residuals_bf16_any is removed")));
}

// The second precision is judged by the written result: the first one's constants and a table.
TEST(ChipCalibrationTest, ASecondPrecisionHasATable) {
  std::vector<std::string> rows;
  for (const double m : {256.0, 1024.0, 4096.0}) {
    for (const double n : {512.0, 2048.0, 5120.0}) {
      const MeasuredGemm gemm = {.shape = {.m = m, .n = n, .k = 2048}};
      const double seconds = GemmTime(gemm, Truth()).count();
      for (const auto& [precision, ratio] : {std::pair{"bf16", 1.0}, std::pair{"fp32", 24.0}}) {
        rows.push_back(fmt::format(
            R"({{"precision": "{}", "pass": "forward", "m": {}, "n": {}, "k": 2048, "count": 1,)"
            R"( "accumulates_fp32": false, "time_seconds": {}}})",
            precision, m, n, seconds * ratio));
      }
    }
  }
  const ChipCalibration calibration = Calibrated(Item("gemm", rows));
  ASSERT_EQ(calibration.entry.spec.gemm_residuals.size(), 1u);
  EXPECT_EQ(calibration.entry.spec.gemm_residuals[0].precision, Precision::kFp32);
  MeasuredGemm seen = {.shape = {.m = 1024, .n = 2048, .k = 2048}};
  const Seconds measured = 24 * GemmTime(seen, Truth());
  seen.precision = Precision::kFp32;
  EXPECT_NEAR(GemmTime(seen, calibration.entry.spec) / measured, 1, 0.15);
}

// Calls visit with each of nine shapes and its time by the chip.
template <typename Visit>
void ForEachAttention(AttentionKernel kernel, const ChipSpec& truth, const Visit& visit) {
  for (const double tokens : {1024.0, 4096.0, 16384.0}) {
    for (const double heads : {8.0, 16.0, 32.0}) {
      const AttentionShape shape = {.batch = 1,
                                    .heads = heads,
                                    .head_dim = 128,
                                    .query_tokens = tokens,
                                    .key_tokens = tokens};
      visit(shape, AttentionTime({.kernel = kernel, .shape = shape}, truth).count());
    }
  }
}

std::string AttentionRow(std::string_view precision, std::string_view kernel,
                         const AttentionShape& shape, double kv_heads, double seconds) {
  return fmt::format(
      R"({{"precision": "{}", "kernel": "{}", "pass": "forward", "batch": 1,)"
      R"( "sequence_length": {}, "head_dim": 128, "head_count": {}, "kv_head_count": {},)"
      R"( "is_causal": true, "time_seconds": {}}})",
      precision, kernel, shape.key_tokens, shape.heads, kv_heads, seconds);
}

TEST(ChipCalibrationTest, AttentionIsOfItsOwnPrecisionAndKernel) {
  ChipSpec truth = Base().spec;
  truth.attention.efficiency = 0.4;
  truth.attention.flash2_ratio = 1;
  std::vector<std::string> rows;
  ForEachAttention(AttentionKernel::kFlash2, truth, [&](const AttentionShape& s, double seconds) {
    rows.push_back(AttentionRow("bf16", "flash2", s, s.heads, seconds));
    // With the copies of shared keys.
    rows.push_back(AttentionRow("bf16", "flash2", s, s.heads / 4, 2 * seconds));
    // Training does not run this precision.
    rows.push_back(AttentionRow("fp32", "flash2", s, s.heads, 20 * seconds));
  });
  const ChipCalibration calibration = Calibrated(Item("attention", rows));
  EXPECT_NEAR(calibration.entry.spec.attention.efficiency, 0.4, 0.02);
}

// FlashAttention 2 beside the chip's own kernel: the constants are of the own one, and the other's
// relative speed is that of the same shapes.
TEST(ChipCalibrationTest, FlashAttention2IsMeasuredAgainstTheOwnKernel) {
  ChipSpec truth = Base().spec;
  truth.attention.efficiency = 0.4;
  truth.attention.flash2_ratio = 0.5;
  std::vector<std::string> rows;
  ForEachAttention(AttentionKernel::kCudnn, truth, [&](const AttentionShape& s, double seconds) {
    rows.push_back(AttentionRow("bf16", "flash2", s, s.heads, seconds / 0.625));
    rows.push_back(AttentionRow("bf16", "cudnn", s, s.heads, seconds));
  });
  const ChipCalibration calibration = Calibrated(Item("attention", rows));
  EXPECT_NEAR(calibration.entry.spec.attention.efficiency, 0.4, 0.02);
  EXPECT_NEAR(calibration.entry.spec.attention.flash2_ratio, 0.625, 1e-6);
}

// The model prices the addition of a gradient to its fp32 buffer as a kernel of its own.
TEST(ChipCalibrationTest, GemmsWithAnAdditionAreLeftOut) {
  const auto read = ParseMeasurements(FileOf(
      Item("gemm", {R"({"precision": "bf16", "pass": "weight_gradient", "m": 1, "n": 1, "k": 1,)"
                    R"( "count": 1, "accumulates_fp32": true, "time_seconds": 1})",
                    R"({"precision": "bf16", "pass": "weight_gradient", "m": 2, "n": 1, "k": 1,)"
                    R"( "count": 1, "accumulates_fp32": false, "time_seconds": 1})"})));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->gemms.size(), 1u);
  EXPECT_EQ(read->gemms[0].shape.m, 2);
}

TEST(ChipCalibrationTest, FusedKernelsComeBeforeEagerOnes) {
  const double rate = 0.5 * Base().spec.memory_bandwidth.rate;
  std::vector<std::string> rows;
  for (const double bytes : {1e8, 2e8, 4e8, 8e8, 16e8}) {
    for (const auto& [kernel, ratio] : {std::pair{"eager", 5.0}, std::pair{"fused", 1.0}}) {
      rows.push_back(
          fmt::format(R"({{"operation": "rmsnorm", "pass": "forward", "kernel": "{}", "bytes": {},)"
                      R"( "time_seconds": {}}})",
                      kernel, bytes, ratio * bytes / rate));
    }
  }
  EXPECT_NEAR(Calibrated(Item("elementwise", rows)).entry.spec.memory_bound_efficiency, 0.5, 0.02);
  const auto read = ParseMeasurements(
      FileOf(Item("elementwise", {R"({"operation": "gelu", "kernel": "slow", "bytes": 1e9,)"
                                  R"( "time_seconds": 1e-3})"})));
  EXPECT_EQ(read.status().message(),
            "items.elementwise.rows[0].kernel = slow; must be one of eager, fused");
}

TEST(ChipCalibrationTest, TheSameFileGivesTheSameChip) {
  EXPECT_EQ(ChipFileText(Calibrated(AllItems()).entry), ChipFileText(Calibrated(AllItems()).entry));
}

TEST(ChipCalibrationTest, ControlCharactersAreRefused) {
  const char* const file =
      R"({"format": "meshwright.microbench", "machine": {"device_name": "a\u001b[2J"}})";
  EXPECT_THAT(FieldViolations(ParseMeasurements(file).status()),
              testing::ElementsAre(FieldViolation{
                  "measurements.machine.device_name",
                  R"("a\u001b[2J"; must have no control characters, but byte 2 is U+001B)"}));
}

TEST(MeasurementsTest, EveryMistakeIsNamed) {
  const auto read = ParseMeasurements(R"({"format": "other", "version": 2,
    "machine": {"device_name": "", "backend": "gloo", "torch": "1", "device_count": 0},
    "items": {"gemm": {"status": "measured", "rows": [
      {"precision": "int4", "pass": "sideways", "m": 0, "n": 1, "k": 1, "count": 1,
       "accumulates_fp32": false, "time_seconds": -1}]},
      "memory": {"status": "measured", "rows": {}},
      "attention": {"status": "done", "rows": []},
      "collectives": {"status": "measured", "rows": [{"kind": "gossip", "rank_count": 2,
        "bytes": 1, "time_seconds": 1}]}}})");
  ASSERT_FALSE(read.ok());
  const std::string text(read.status().message());
  for (const char* place :
       {"format", "version", "machine.device_name", "machine.device_count",
        "items.gemm.rows[0].precision", "items.gemm.rows[0].pass", "items.gemm.rows[0].m",
        "items.gemm.rows[0].time_seconds", "items.memory.rows",
        "items.attention.status = done; must be one of measured, skipped, failed",
        "items.collectives.rows[0].kind"}) {
    EXPECT_THAT(text, HasSubstr(place));
  }
}

TEST(MeasurementsTest, MemoryHasThreeOperations) {
  const auto read = ParseMeasurements(
      FileOf(Item("memory", {R"({"operation": "transpose", "bytes": 1e9,)"
                             R"( "working_set_bytes": 1e9, "time_seconds": 1e-3})"})));
  EXPECT_EQ(read.status().message(),
            "items.memory.rows[0].operation = transpose; must be one of copy, scale, triad");
}

TEST(MeasurementsTest, NoJsonIsOneMistake) {
  const std::string text(ParseMeasurements("{").status().message());
  EXPECT_THAT(text, testing::StartsWith("measurements = no JSON: parse error at line 1, column 2"));
  EXPECT_FALSE(ParseMeasurements("[]").ok());
}

TEST(MeasurementsTest, UnknownItemsAreListedAndLeftAlone) {
  const auto read = ParseMeasurements(FileOf(
      R"("teleport": {"status": "measured", "reason": "", "seconds": 0, "rows": [{"x": 1}]})"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->items, Contains(Field(&ItemState::name, "teleport")));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
