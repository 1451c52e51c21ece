#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "estimator/fit/attention_fit.h"
#include "estimator/fit/collective_fit.h"
#include "estimator/fit/fit_error.h"
#include "estimator/fit/gemm_fit.h"
#include "estimator/fit/measured.h"
#include "estimator/fit/minimise.h"
#include "estimator/fit/traffic_fit.h"
#include "estimator/terms/attention.h"
#include "estimator/terms/collective.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/matmul.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "server/tuner/answers/sweep.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

ChipSpec Board() {
  ChipSpec chip;
  chip.memory_bandwidth = {2e12};
  chip.peak[Precision::kBf16] = {300e12};
  chip.vector_peak = {20e12};
  chip.core_count = 100;
  return chip;
}

TEST(MinimiseTest, FindsTheLeastWithinBounds) {
  const FitParameter parameters[] = {{.low = -10, .start = 5, .high = 10},
                                     {.low = 2, .start = 8, .high = 10}};
  const auto least =
      Minimise([](std::span<const double> x) { return std::pow(x[0] + 3, 2) + std::pow(x[1], 2); },
               parameters);
  EXPECT_NEAR(least[0], -3, 1e-2);
  EXPECT_NEAR(least[1], 2, 1e-2);  // the bound
}

// Sizes as a design of microbenchmarks has them.
std::vector<MeasuredGemm> Gemms(const ChipSpec& chip, const std::vector<double>& sizes) {
  std::vector<MeasuredGemm> points;
  for (const double m : sizes) {
    for (const double n : sizes) {
      for (const double k : {512.0, 1536.0, 4096.0}) {
        MeasuredGemm point = {.shape = {.m = m, .n = n, .k = k}};
        point.time = GemmTime(point, chip);
        points.push_back(point);
      }
    }
  }
  return points;
}

TEST(GemmFitTest, FindsTheTimesOfShapesThatItHasNotSeen) {
  ChipSpec chip = Board();
  chip.gemm = {.compute_efficiency = 0.6,
               .memory_efficiency = 0.5,
               .fixed = Seconds(1e-5),
               .intensity_half = 2,
               .fill = 300,
               .quantisation = 0.9,
               .norm_exponent = 6,
               .split_k = Seconds(1e-6)};
  const std::vector<MeasuredGemm> seen = Gemms(chip, {128, 512, 1280, 4096, 8192});
  ChipSpec fitted = Board();
  fitted.gemm = FitGemm(seen, Board());
  std::vector<double> errors;
  for (const MeasuredGemm& point : Gemms(chip, {256, 896, 3072, 6144})) {
    errors.push_back(std::abs(GemmTime(point, fitted) / point.time - 1));
  }
  const FitError error = ErrorOf(std::move(errors));
  EXPECT_LT(error.median_ratio, 0.03);
  EXPECT_LT(error.p90_ratio, 0.10);
  // The class defaults, from which the fit begins, are nowhere near.
  EXPECT_GT(std::abs(GemmTime(seen.back(), Board()) / seen.back().time - 1), 0.2);
}

TEST(GemmFitTest, SameInputSameConstants) {
  ChipSpec chip = Board();
  chip.gemm.compute_efficiency = 0.4;
  const std::vector<MeasuredGemm> points = Gemms(chip, {256, 2048});
  EXPECT_EQ(FitGemm(points, Board()), FitGemm(points, Board()));
}

TEST(GemmFitTest, HoldsOutNothingOfOneSize) {
  const std::vector<MeasuredGemm> points = {
      {.shape = {.m = 64, .n = 64, .k = 64}, .time = Seconds(1e-5)}};
  EXPECT_EQ(GemmHeldOutError(points, Board(), GemmFitParts::kConstants).point_count, 0);
}

CollectiveFit Fabric() {
  return {.kind = CollectiveKind::kAllReduce,
          .ranks = 8,
          .alpha = Seconds(2e-5),
          .bandwidth = {2e11},
          .half = {4000000}};
}

std::vector<MeasuredCollective> Sweep(const CollectiveFit& fit) {
  std::vector<MeasuredCollective> points;
  for (std::int64_t bytes = 4096; bytes <= std::int64_t{1} << 30; bytes *= 4) {
    points.push_back(
        {.kind = fit.kind, .ranks = fit.ranks, .bytes = {bytes}, .time = FitTime(fit, {bytes})});
  }
  return points;
}

TEST(CollectiveFitTest, FindsTheConstants) {
  const CollectiveFit fit = FitCollective(Sweep(Fabric()));
  EXPECT_NEAR(fit.alpha.count(), 2e-5, 2e-6);
  EXPECT_NEAR(fit.bandwidth.rate, 2e11, 4e9);
  EXPECT_LT(ErrorOf(CurveHeldOutErrors(Sweep(Fabric()))).p90_ratio, 0.02);
}

TEST(CollectiveFitTest, TheCurveGoesThroughWhatWasMeasured) {
  std::vector<MeasuredCollective> points = Sweep(Fabric());
  points[4].time = points[4].time * 1.5;  // a bump that the formula cannot follow
  const CollectiveFit fit = FitCollective(points);
  for (const MeasuredCollective& point : points) {
    EXPECT_NEAR(FitTime(fit, point.bytes) / point.time, 1, 1e-9);
  }
  // Half way between in the logarithm: half of the bump's logarithm, but for the form's own slope.
  const Bytes between = {points[4].bytes.count * 2};
  EXPECT_NEAR(FitTime(fit, between) / FitTime(Fabric(), between), std::sqrt(1.5), 0.05);
  // Beyond the largest the formula goes on.
  const Bytes beyond = {std::int64_t{1} << 32};
  EXPECT_NEAR(FitTime(fit, beyond) / FitTime(Fabric(), beyond), 1, 0.05);
}

TEST(CollectiveFitTest, HoldsOutNothingOfFewSizes) {
  std::vector<MeasuredCollective> points = Sweep(Fabric());
  points.resize(4);
  EXPECT_TRUE(CurveHeldOutErrors(points).empty());
}

TEST(TrafficFitTest, FindsTheConstants) {
  ChipSpec chip = Board();
  chip.cache = {40'000'000};
  const TrafficFit fit = {.fixed = Seconds(4e-6), .efficiency = 0.6, .cache_bandwidth_ratio = 1.5};
  std::vector<MeasuredTraffic> points;
  for (const std::int64_t bytes :
       {10'000, 1'000'000, 15'000'000, 19'000'000, 60'000'000, 1'000'000'000}) {
    points.push_back({.bytes = {bytes}, .time = TrafficTime(fit, {bytes}, chip)});
  }
  const TrafficFit found = FitTraffic(points, chip);
  EXPECT_NEAR(found.fixed.count(), 4e-6, 2e-7);
  EXPECT_NEAR(found.efficiency, 0.6, 0.01);
  EXPECT_NEAR(found.cache_bandwidth_ratio, 1.5, 0.05);
}

TEST(AttentionFitTest, FindsForwardAndBackwardRates) {
  ChipSpec chip = Board();
  chip.attention = {.efficiency = 0.65,
                    .sequence_half = 900,
                    .wave_half = 0.4,
                    .small_head_ratio = 0.7,
                    .backward_time_ratio = 3.2,
                    .backward_sequence_half = 200,
                    .backward_wave_half = 0.9};
  DeviceRates rates;
  rates.peak = chip.peak[Precision::kBf16];
  std::vector<MeasuredAttention> points;
  for (const double tokens : {1024.0, 4096.0, 16384.0}) {
    for (const double heads : {8.0, 32.0}) {
      for (const double size : {64.0, 128.0}) {
        const AttentionShape shape = {.batch = 1,
                                      .heads = heads,
                                      .head_dim = size,
                                      .query_tokens = tokens,
                                      .key_tokens = tokens};
        points.push_back(
            {.shape = shape,
             .is_backward = false,
             .time = FusedAttentionTime(shape, AttentionKernel::kVendor, chip, rates)});
        points.push_back(
            {.shape = shape,
             .is_backward = true,
             .time = FusedAttentionBackwardTime(shape, AttentionKernel::kVendor, chip, rates)});
      }
    }
  }
  const AttentionModel found = FitAttention(points, Board());
  EXPECT_NEAR(found.efficiency, 0.65, 0.02);
  EXPECT_NEAR(found.small_head_ratio, 0.7, 0.02);
  EXPECT_NEAR(found.backward_time_ratio, 3.2, 0.15);
  // If there are only forward points, the backward pass stays as it was.
  std::erase_if(points, [](const MeasuredAttention& p) { return p.is_backward; });
  EXPECT_EQ(FitAttention(points, Board()).backward_time_ratio,
            Board().attention.backward_time_ratio);
}

TEST(GemmFitTest, ConstantsAtTheEdgeAreTold) {
  GemmModel gemm;
  EXPECT_THAT(FiguresAtTheEdge(gemm), testing::IsEmpty());
  gemm.fixed = Seconds(1e-9);
  gemm.norm_exponent = 50;
  EXPECT_THAT(FiguresAtTheEdge(gemm),
              testing::ElementsAre("gemm_fixed_seconds", "gemm_norm_exponent"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
