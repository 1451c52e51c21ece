#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/spec/choices.h"
#include "server/tuner/chip_calibration/calibrated_chip.h"
#include "server/tuner/chip_calibration/chip_calibration.h"
#include "server/tuner/chip_calibration/measurements.h"
#include "tests/tuner/measured_chip.h"
#include "vendor_models/chip_file.h"
#include "vendor_models/chip_text.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string WithoutCollectives() {
  return fmt::format("{}, {}, {}, {}", Device(false), Gemms(Truth()), Streams(1.7e12), Kernels());
}

TEST(ChipReadinessTest, CollectivesOfAChipThatComesInNodesAreNeeded) {
  const ChipCalibration calibration = Calibrated(
      WithoutCollectives() +
      R"(, "collectives": {"status": "skipped", "reason": "one rank", "seconds": 0, "rows": []})");
  EXPECT_THAT(WhyNotReady(calibration), ElementsAre("collectives was not measured"));
  EXPECT_THAT(OperatorOf(calibration, "collectives").advice, HasSubstr("skipped (one rank)"));
}

// The state of an item that failed part of the way. Only experts need the all-to-all.
TEST(ChipReadinessTest, EveryKindOfCollectiveIsNeeded) {
  const ChipCalibration calibration =
      Calibrated(WithoutCollectives() + ", " + Collectives({"all_reduce"}));
  EXPECT_THAT(WhyNotReady(calibration),
              ElementsAre("all_gather was not measured", "reduce_scatter was not measured"));
  EXPECT_FALSE(OperatorOf(calibration, "all_to_all").is_needed);
}

TEST(ChipReadinessTest, CollectivesOfAChipThatComesAloneAreNot) {
  std::string file = FileOf(WithoutCollectives());
  file.replace(file.find("\"device_count\": 2"), 17, "\"device_count\": 1");
  const auto measurements = ParseMeasurements(file);
  ASSERT_TRUE(measurements.ok()) << measurements.status();
  ChipEntry alone = Base();
  alone.spec.usual_node.device_count = 1;
  SetFigure(alone, {.name = "usual_node_device_count", .value = "1", .source = "a card"});
  const auto calibration = CalibrateChip(alone, *measurements, "x");
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_FALSE(OperatorOf(*calibration, "collectives").is_needed);
  EXPECT_TRUE(IsReady(*calibration));
}

// A CPU has no fused kernel. An accelerator has one, even if a PyTorch before 2 does not reach it.
TEST(ChipReadinessTest, AttentionIsNeededWhereThereIsAFusedKernel) {
  EXPECT_FALSE(OperatorOf(Calibrated(AllItems()), "attention").is_needed);
  EXPECT_THAT(WhyNotReady(Calibrated(AllItems(), "npu")),
              ElementsAre("attention was not measured"));
}

TEST(ChipReadinessTest, AttentionInAPrecisionWithoutAPeakIsNotMeasured) {
  ChipEntry base = Base();
  base.spec.peak.erase(Precision::kFp16);
  std::erase_if(base.figures,
                [](const ChipFigure& f) { return f.name == "peak_fp16_flops_per_second"; });
  const auto measurements = ParseMeasurements(FileOf(Item(
      "attention", {R"({"precision": "fp16", "kernel": "flash2", "pass": "forward", "batch": 1,)"
                    R"( "sequence_length": 1024, "head_dim": 128, "head_count": 8,)"
                    R"( "kv_head_count": 8, "is_causal": true, "time_seconds": 0.001})"})));
  ASSERT_TRUE(measurements.ok()) << measurements.status();
  const auto calibration = CalibrateChip(base, *measurements, "x");
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_EQ(OperatorOf(*calibration, "attention").verdict, OperatorVerdict::kAssumed);
  EXPECT_THAT(OperatorOf(*calibration, "attention").advice, HasSubstr("no peak for fp16"));
  EXPECT_THAT(WhyNotReady(*calibration), Contains("attention, fp16 was not measured"));
}

// Returns CalibrateChip's error for Base() and `items`, or "" if there is none.
std::string Refusal(const std::string& items, bool is_quick = false) {
  std::string file = FileOf(items);
  if (is_quick) file.replace(file.find("\"device_count\""), 0, "\"is_quick\": true, ");
  const auto measurements = ParseMeasurements(file);
  EXPECT_TRUE(measurements.ok()) << measurements.status();
  return std::string(CalibrateChip(Base(), *measurements, "x").status().message());
}

std::string OneGemm(std::string_view precision, double seconds) {
  return Item("gemm", {fmt::format(R"({{"precision": "{}", "pass": "forward", "m": 1000,)"
                                   R"( "n": 1000, "k": 1000, "count": 1,)"
                                   R"( "accumulates_fp32": false, "time_seconds": {}}})",
                                   precision, seconds)});
}

// The GEMM has 2 x 1000^3 operations; the chip's published peaks are 312e12 (bf16) and 19.5e12
// (fp32).
TEST(ChipReadinessTest, GemmsThatThisChipCannotHaveRunAreRefused) {
  // 2e9 / 3.2e-6 = 625e12 = 2.00 x 312e12.
  EXPECT_EQ(Refusal(OneGemm("bf16", 3.2e-6)),
            "items.gemm = 6.25e+14 a second in the fastest bf16 GEMM, 2 times the published "
            "peak_bf16_flops_per_second of 3.12e+14; must be 0.05 to 1.1 times: was it measured "
            "on another chip, or are its times or sizes in other units?");
  EXPECT_EQ(Refusal(OneGemm("bf16", 6e-6)), "");  // 333e12: 1.07 x
  EXPECT_THAT(Refusal(OneGemm("bf16", 2e-4)), HasSubstr("0.0321 times"));
  EXPECT_EQ(Refusal(OneGemm("bf16", 2e-4), /*is_quick=*/true), "");  // its shapes are small
  EXPECT_EQ(Refusal(OneGemm("fp32", 2e-5)), "");                     // 100e12, in TF32
  EXPECT_THAT(Refusal(OneGemm("fp32", 3.2e-6)), HasSubstr("peak_bf16"));
  EXPECT_EQ(Refusal(OneGemm("fp8", 3.2e-6)), "");  // no peak is published
}

// The published bandwidth is 2.039e12: 4e12 is 1.96 times that, 5e10 is 0.0245.
TEST(ChipReadinessTest, CopiesThatThisChipCannotHaveRunAreRefused) {
  EXPECT_THAT(Refusal(Streams(4e12)),
              HasSubstr("items.memory = 4e+12 a second in the fastest copy of 953 MiB "
                        "(more than its caches?), 1.96 times the published "
                        "memory_bandwidth_bytes_per_second"));
  EXPECT_THAT(Refusal(Streams(5e10)), HasSubstr("0.0245 times"));
  EXPECT_EQ(Refusal(Streams(1.7e12)), "");
}

// If the published figure is an unverified report, the measurement may be the right one.
TEST(ChipReadinessTest, AFigureOfLowConfidenceRefusesNothing) {
  ChipEntry base = Base();
  for (ChipFigure& figure : base.figures) {
    if (figure.name.starts_with("peak_")) figure.confidence = Confidence::kLow;
  }
  const auto measurements = ParseMeasurements(FileOf(OneGemm("bf16", 3.2e-6)));
  ASSERT_TRUE(measurements.ok());
  const auto calibration = CalibrateChip(base, *measurements, "x");
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_THAT(calibration->warnings, Contains(HasSubstr("or the figure is wrong, which has low")));
}

TEST(ChipReadinessTest, WhatNobodyPublishedHoldsNothing) {
  ChipEntry base = Base();
  for (ChipFigure& figure : base.figures) {
    if (figure.name.starts_with("peak_")) figure.provenance = Provenance::kAssumed;
  }
  const auto measurements = ParseMeasurements(FileOf(OneGemm("bf16", 3.2e-6)));
  ASSERT_TRUE(measurements.ok());
  EXPECT_TRUE(CalibrateChip(base, *measurements, "x").ok());
}

TEST(ChipReadinessTest, ConstantsOfAPrecisionThatTrainingDoesNotRunAreWarnedOf) {
  EXPECT_THAT(Calibrated(OneGemm("fp32", 2e-4)).warnings,
              Contains(HasSubstr("fitted to fp32, the fastest precision of the file, but the "
                                 "chip's half precision is bf16")));
  EXPECT_THAT(Calibrated(OneGemm("fp16", 1e-5)).warnings,
              Not(Contains(HasSubstr("half precision"))));
}

// If few of many copies are far off, the median is as good as without them.
TEST(ChipReadinessTest, AHighPercentileIsPoorToo) {
  const auto verdict = [](double slow_seconds) {
    std::vector<std::string> rows;
    for (int i = 0; i < 11; ++i) {
      rows.push_back(fmt::format(R"({{"operation": "copy", "bytes": 1e9, "working_set_bytes": 1e9,)"
                                 R"( "time_seconds": {}}})",
                                 i < 9 ? 6e-4 : slow_seconds));
    }
    return OperatorOf(Calibrated(Item("memory", rows)), "stream");
  };
  // Errors are 0 of nine and |6e-4 / t - 1| of two; the tenth of eleven is the 90th percentile.
  EXPECT_EQ(verdict(8e-4).verdict, OperatorVerdict::kGood);  // 0.25, of at most 5 x 0.15
  EXPECT_EQ(verdict(3e-3).held_out.median_ratio, 0);
  EXPECT_EQ(verdict(3e-3).verdict, OperatorVerdict::kPoor);  // 0.8
}

TEST(ChipReadinessTest, SaysWhyItIsNotReadyAndOnWhatItWasMeasured) {
  const ChipCalibration ready = Calibrated(AllItems());
  EXPECT_THAT(WhyNotReady(ready), ElementsAre());
  EXPECT_EQ(ready.device_name, "a board");
  const ChipCalibration calibration =
      Calibrated(Device(false) + ", " + Gemms(Truth()) + ", " + Collectives() + ", " +
                 Item("memory", {R"({"operation": "copy", "bytes": 1e9, "working_set_bytes": 1e9,)"
                                 R"( "time_seconds": 6e-4})"}));
  EXPECT_THAT(WhyNotReady(calibration),
              ElementsAre("stream has too few points", "memory-bound was not measured"));
}

double FigureOf(const ChipEntry& entry, std::string_view name) {
  const ChipFigure* figure = FindFigure(entry, name);
  return figure == nullptr ? 0 : std::stod(figure->value);
}

// 0.0072 / 0.001 is 7.2, and a chip file holds 0.5 to 5.
TEST(ChipReadinessTest, ARatioOutOfItsBoundsIsRefused) {
  std::string items = AllItems();
  const std::string usual = R"("time_seconds": 0.0013, "rank_count")";
  ASSERT_NE(items.find(usual), std::string::npos);
  items.replace(items.find(usual), usual.size(), R"("time_seconds": 0.0072, "rank_count")");
  const ChipCalibration calibration = Calibrated(items);
  EXPECT_THAT(WhyNotReady(calibration),
              ElementsAre("sustained_time_ratio = 7.2; must be 0.5 to 5: repeat item "
                          "sustained_gemm (bf16 4096 x 4096 x 4096)"));
  EXPECT_EQ(OperatorOf(calibration, "sustained gemm").verdict, OperatorVerdict::kPoor);
  EXPECT_THAT(OperatorOf(calibration, "sustained gemm").advice,
              HasSubstr("microbench.py --only sustained_gemm --again"));
  EXPECT_EQ(FigureOf(calibration.entry, "sustained_time_ratio"),
            FigureOf(Base(), "sustained_time_ratio"));
}

// Each pair takes (9 - 2) / 1 = 7 times the hidden time longer.
TEST(ChipReadinessTest, AnOverlapOutOfItsBoundsNamesItsSizes) {
  const auto row = [](int bytes) {
    return fmt::format(R"({{"rank_count": 2, "bytes": {}, "gemm_alone_seconds": 2e-3,)"
                       R"( "collective_alone_seconds": 1e-3, "together_seconds": 9e-3}})",
                       bytes);
  };
  const ChipCalibration calibration =
      Calibrated(AllItems() + ", " + Item("overlap", {row(4096), row(65536), row(1 << 20)}));
  EXPECT_THAT(WhyNotReady(calibration),
              ElementsAre("overlap_slowdown_ratio = 7; must be 0 to 2: repeat item overlap "
                          "(all-reduces of 4096 to 1048576 bytes)"));
}

// Kernels at ten times the bandwidth: the fit ends at 2, the most that a chip file may hold.
TEST(ChipReadinessTest, AFitThatEndsAtTheEdgeOfItsRangeIsRefusedWhole) {
  std::vector<std::string> rows;
  for (int i = 0; i < 10; ++i) {
    const double bytes = std::round(1e7 * std::pow(2, i));
    rows.push_back(fmt::format(R"({{"operation": "gelu", "pass": "forward", "element_count": 1,)"
                               R"( "bytes": {}, "time_seconds": {}}})",
                               bytes, 1e-7 + bytes / 2e13));
  }
  const ChipCalibration calibration = Calibrated(Item("elementwise", rows));
  EXPECT_THAT(
      WhyNotReady(calibration),
      Contains(
          "memory_bound_efficiency_ratio = 2; must be inside the bounds 0.01 to 2: repeat item "
          "elementwise"));
  for (const std::string_view figure :
       {"memory_bound_efficiency_ratio", "memory_bound_fixed_seconds"}) {
    EXPECT_EQ(FigureOf(calibration.entry, figure), FigureOf(Base(), figure)) << figure;
  }
}

TEST(ChipReadinessTest, OnePointIsNotEnoughToBeReady) {
  const ChipCalibration calibration = Calibrated(
      Device(false) + ", " + Streams(1.7e12) + ", " + Kernels() + ", " + Collectives() + ", " +
      Sustained() + ", " +
      Item("gemm", {R"({"precision": "bf16", "pass": "forward", "m": 1024, "n": 1024, "k": 1024,)"
                    R"( "count": 1, "accumulates_fp32": false, "time_seconds": 1e-4})"}));
  EXPECT_THAT(WhyNotReady(calibration), ElementsAre("gemm, bf16 has too few points"));
}

// Plans that run in another precision, or exchange no messages, do not need them.
TEST(ChipReadinessTest, OtherPrecisionsAndAllToAllAreNotNeeded) {
  std::string items = AllItems();
  const std::string gemms = R"({"precision": "fp32", "pass": "forward", "m": 1024, "n": 1024,)"
                            R"( "k": 1024, "count": 1, "accumulates_fp32": false,)"
                            R"( "time_seconds": 1e-3}, )";
  items.insert(items.find(R"({"precision": "bf16")"), gemms);
  const std::string exchange = R"({"kind": "all_to_all", "rank_count": 2, "bytes": 4096,)"
                               R"( "time_seconds": 1e-4}, )";
  items.insert(items.find(R"({"kind": "all_reduce")"), exchange);
  const ChipCalibration calibration = Calibrated(items);
  EXPECT_FALSE(OperatorOf(calibration, "all_to_all").is_needed);
  EXPECT_EQ(std::ranges::count(calibration.operators, "gemm", &OperatorFit::name), 2);
  EXPECT_THAT(WhyNotReady(calibration), ElementsAre());
}

TEST(ChipReadinessTest, AQuickRunIsNothingToJudgeBy) {
  std::string text = FileOf(AllItems());
  text.replace(text.find("\"device_count\""), 0, "\"is_quick\": true, ");
  const auto measurements = ParseMeasurements(text);
  ASSERT_TRUE(measurements.ok()) << measurements.status();
  const auto calibration = CalibrateChip(Base(), *measurements, "x");
  ASSERT_TRUE(calibration.ok());
  EXPECT_FALSE(IsReady(*calibration));
  EXPECT_THAT(WhyNotReady(*calibration),
              ElementsAre("it was measured with --quick: repeat all items without it, into another "
                          "file"));
  EXPECT_THAT(calibration->warnings, Contains(HasSubstr("--quick")));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
