#include "estimator/terms/matmul.h"

#include <gtest/gtest.h>

#include <ostream>

#include "estimator/terms/kernel.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// A chip whose GEMMs run at the share of its peak that tiles and waves leave.
ChipSpec PlainChip() {
  ChipSpec chip;
  chip.core_count = 100;
  chip.memory_bandwidth = {1e18};  // never the limit
  chip.gemm = {.compute_efficiency = 1,
               .memory_efficiency = 1,
               .fixed = Seconds(0),
               .intensity_half = 0,  // eta = 1 for every tile
               .fill = 0,
               .quantisation = 1,
               .norm_exponent = 8,
               .split_k = Seconds(1)};  // never worth it
  return chip;
}

constexpr DeviceRates kPlainRates = {.peak = {1e14}, .element_bytes = 2};

// The A100 constants of the tile-wave fit (docs/cost_model/gemm.md).
ChipSpec A100Chip() {
  ChipSpec chip;
  chip.core_count = 108;
  chip.memory_bandwidth = {2.039e12};
  chip.gemm = {.compute_efficiency = 0.9499,
               .memory_efficiency = 0.78,
               .fixed = Seconds(5.121e-7),
               .intensity_half = 3.7421,
               .fill = 231.054,
               .quantisation = 0.9901,
               .norm_exponent = 6.6758,
               .split_k = Seconds(3e-7)};
  return chip;
}

constexpr DeviceRates kA100Rates = {.peak = {312e12}, .element_bytes = 2};

struct Case {
  const char* name;
  MatmulShape shape;
  double expected_seconds;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kPlainCases[] = {
    // 256x128 tiles: 10 x 10 = 100 blocks, one wave of 100 cores of 1e12: 2*256*128*1024 / 1e12.
    {"OneFullWave", {.m = 2560, .n = 1280, .k = 1024}, 6.7108864e-5},
    // One row more: 11 x 10 = 110 big blocks are two waves, 1.342e-4 s; 64x64 tiles make
    // 41 x 20 = 820 blocks = 9 waves of 2*64*64*1024 / 1e12 = 8.388608e-6 s: 7.5497e-5.
    {"OneRowMore", {.m = 2561, .n = 1280, .k = 1024}, 9 * 8.388608e-6},
    // Four of them: 400 blocks of 256x128, four full waves.
    {"Batched", {.m = 2560, .n = 1280, .k = 1024, .count = 4}, 4 * 6.7108864e-5},
    // One 64x64 block: a wave that is not full takes its whole time.
    {"OneBlock", {.m = 64, .n = 64, .k = 1024}, 8.388608e-6},
    {"Nothing", {.m = 0, .n = 64, .k = 64}, 0},
};

class PlainMatmulTest : public testing::TestWithParam<Case> {};

TEST_P(PlainMatmulTest, TilesAndWaves) {
  const Case& c = GetParam();
  const double time = MatmulTime(c.shape, PlainChip(), kPlainRates, false).count();
  EXPECT_NEAR(time, c.expected_seconds, 1e-9 * c.expected_seconds);
}

INSTANTIATE_TEST_SUITE_P(All, PlainMatmulTest, testing::ValuesIn(kPlainCases),
                         [](const auto& test) { return std::string(test.param.name); });

// m = n = k = 4096 on A100, best tile 256x128, no split:
//   blocks 16 * 32 = 512; waves 512 / 108 = 4.74074
//   w_eff = 0.0099 * 4.74074 + 0.9901 * 5 = 4.997433
//   eta = 1 (the reference tile); rate of a core 312e12 / 108 * 0.9499 = 2.744156e12
//   compute = 4.997433 * 2 * 256 * 128 * (4096 + 231.054) / 2.744156e12 = 516.429 us
//   memory = 3 * 4096^2 * 2 / (2.039e12 * 0.78) = 63.29 us, lost in the norm: (0.1226)^6.68 = 8e-7
//   t = 0.5121 + 516.429 = 516.941 us: 266 TFLOP/s. (The tables' median of large GEMMs is 281.)
TEST(MatmulTime, A100ByHand) {
  const MatmulShape shape = {.m = 4096, .n = 4096, .k = 4096};
  EXPECT_NEAR(MatmulTime(shape, A100Chip(), kA100Rates, false).count(), 516.941e-6, 1e-9);
}

// The sustained factor and the 6 % of fp32 accumulation stretch all but the fixed part:
// 0.5121 + 516.429 * 1.1 * 1.06.
TEST(MatmulTime, SustainedAndAccumulating) {
  const MatmulShape shape = {.m = 4096, .n = 4096, .k = 4096};
  DeviceRates rates = kA100Rates;
  rates.sustained_time_ratio = 1.1;
  EXPECT_NEAR(MatmulTime(shape, A100Chip(), rates, true).count(), 602.668e-6, 2e-9);
}

// A weight gradient with few output tiles and a long k is split: one 128x128 output over k = 8192
// as four 64x64 blocks uses 4 of 108 cores; split 16 ways it uses 64.
//   eta(64x64) = 4.7421 * 0.375 / (0.375 + 3.7421) = 0.431927
//   split 16: 2*64*64*(512 + 231.054) / (2.744156e12 * 0.431927) + 0.3 us + 16*128*128*4 / 2.039e12
//           = 5.1356 + 0.3 + 0.5143 = 5.9499 us
//   memory = (128*8192*2 + 128*128)*2 / 1.59042e12 = 2.6578 us; norm 5.954 us; + 0.5121
TEST(MatmulTime, SplitOfLongK) {
  const MatmulShape shape = {.m = 128, .n = 128, .k = 8192};
  EXPECT_NEAR(MatmulTime(shape, A100Chip(), kA100Rates, false).count(), 6.466e-6, 2e-9);
}

// Below four rows of tokens a GEMM streams its weights: bytes / (0.78 of the bandwidth).
TEST(MatmulTime, MemoryBoundShape) {
  const MatmulShape shape = {.m = 1, .n = 16384, .k = 16384};
  const double bytes = 2.0 * (16384.0 * 16384 + 2 * 16384);
  EXPECT_NEAR(MatmulTime(shape, A100Chip(), kA100Rates, false).count(), bytes / (2.039e12 * 0.78),
              0.05 * bytes / (2.039e12 * 0.78));
}

// The power limit slows the matrix units, not the memory.
TEST(MatmulTime, PowerSlowsComputeOnly) {
  DeviceRates slow = kPlainRates;
  slow.power_time_ratio = 2;
  const MatmulShape full = {.m = 2560, .n = 1280, .k = 1024};  // a full wave, above
  EXPECT_NEAR(MatmulTime(full, PlainChip(), slow, false).count(), 2 * 6.7108864e-5, 1e-12);
  ChipSpec starved = PlainChip();
  starved.memory_bandwidth = {1e9};
  const double bytes = 2.0 * (2560 * 1024 + 1024 * 1280 + 2560 * 1280);
  EXPECT_NEAR(MatmulTime(full, starved, slow, false).count(), bytes / 1e9, 1e-9);
}

// Twice the work in any direction never takes less time.
TEST(MatmulTime, MonotoneUnderDoubling) {
  const ChipSpec chip = A100Chip();
  const auto time = [&](double m, double n, double k) {
    return MatmulTime({.m = m, .n = n, .k = k}, chip, kA100Rates, false);
  };
  for (int m = 256; m <= 16384; m *= 2) {
    for (int n = 256; n <= 16384; n *= 2) {
      for (int k = 256; k <= 16384; k *= 2) {
        const Seconds base = time(m, n, k);
        EXPECT_LE(base, time(2 * m, n, k)) << m << " " << n << " " << k;
        EXPECT_LE(base, time(m, 2 * n, k)) << m << " " << n << " " << k;
        EXPECT_LE(base, time(m, n, 2 * k)) << m << " " << n << " " << k;
      }
    }
  }
}

// Another row or column never makes a product faster.
TEST(MatmulTime, MonotoneInRowsAndColumns) {
  const ChipSpec chip = A100Chip();
  Seconds last_m(0);
  Seconds last_n(0);
  for (int i = 1; i < 400; ++i) {
    const double size = 37.0 * i;
    const Seconds m = MatmulTime({.m = size, .n = 3072, .k = 1536}, chip, kA100Rates, false);
    const Seconds n = MatmulTime({.m = 3072, .n = size, .k = 1536}, chip, kA100Rates, false);
    EXPECT_LE(last_m, m) << size;
    EXPECT_LE(last_n, n) << size;
    last_m = m;
    last_n = n;
  }
}

TEST(MatmulTimes, SameAsMatmulTime) {
  const ChipSpec chip = A100Chip();
  MatmulTimes times(chip, kA100Rates);
  for (const bool fp32 : {false, true, false, true}) {
    for (const double m : {512.0, 640.0, 512.0}) {
      const MatmulShape shape = {.m = m, .n = 4096, .k = 1024};
      EXPECT_EQ(times.Of({.shape = shape, .accumulates_fp32 = fp32}),
                MatmulTime(shape, chip, kA100Rates, fp32));
    }
  }
}

// Large, small, skewed, grouped and unaligned shapes: none is faster than its FLOPs' least time.
TEST(MatmulTimes, NoneIsBelowTheLeast) {
  ChipSpec chip = A100Chip();
  chip.gemm_residuals = {{.precision = Precision::kBf16,
                          .shapes = {{.log_m = 9, .log_n = 9, .log_k = 9, .log_time_ratio = -0.3},
                                     {.log_m = 6, .log_n = 6, .log_k = 6, .log_time_ratio = 0.2}}}};
  IndexShapes(chip.gemm_residuals.front());
  DeviceRates rates = kA100Rates;
  rates.vector_peak = {19.5e12};
  rates.power_time_ratio = 1.1;
  MatmulTimes times(chip, rates);
  for (const double m : {1.0, 100.0, 8192.0, 262'144.0}) {
    for (const double n : {64.0, 8192.0, 100'000.0}) {
      for (const double k : {128.0, 8192.0, 65'536.0}) {
        for (const double count : {1.0, 8.0}) {
          MatmulShape shape = {.m = m, .n = n, .k = k, .count = count};
          const Seconds least = times.Least({2 * m * n * k * count});
          EXPECT_GE(times.Of({.shape = shape}), least) << m << " " << n << " " << k;
          shape.is_aligned = false;
          EXPECT_GE(times.Of({.shape = shape}), least) << m << " " << n << " " << k;
        }
      }
    }
  }
  // The bound is reached except for the fill of a tile: 20 % with the best residual.
  const Seconds best = times.Of({.shape = {.m = 8192, .n = 8192, .k = 8192}});
  EXPECT_LT(best, 1.2 * times.Least({2 * 8192.0 * 8192 * 8192}));
}

TEST(NominalPeak, AbsentWithoutUnit) {
  ChipSpec chip;
  chip.peak = {{Precision::kBf16, {312e12}}};
  EXPECT_EQ(NominalPeak(chip, Precision::kBf16)->rate, 312e12);
  EXPECT_FALSE(NominalPeak(chip, Precision::kFp8).has_value());
}

// Rows that are no multiple of 16 bytes leave the matrix units idle: 2 m n k at 0.85 of the vector
// units' peak (docs/cost_model/gemm.md), here 2 x 128 x 64 x 100 x 4 / 0.85e12.
TEST(MatmulTime, UnalignedRunsOnVectorUnits) {
  const MatmulShape aligned = {.m = 128, .n = 64, .k = 100, .count = 4};
  MatmulShape unaligned = aligned;
  unaligned.is_aligned = false;
  DeviceRates rates = kPlainRates;
  rates.vector_peak = {1e12};
  EXPECT_NEAR(MatmulTime(unaligned, PlainChip(), rates, false).count(), 6'553'600 / 0.85e12, 1e-14);
  EXPECT_EQ(MatmulTime(aligned, PlainChip(), rates, false),
            MatmulTime(aligned, PlainChip(), kPlainRates, false));
  // Both are remembered apart.
  const ChipSpec chip = PlainChip();
  MatmulTimes times(chip, rates);
  EXPECT_NE(times.Of({.shape = aligned}), times.Of({.shape = unaligned}));
  // A chip with unknown vector peak uses its matrix units.
  EXPECT_EQ(MatmulTime(unaligned, PlainChip(), kPlainRates, false),
            MatmulTime(aligned, PlainChip(), kPlainRates, false));
}

// A power limit stretches all but the fixed part, on top of the sustained factor:
// 0.5121 + 516.429 * 1.1 * 1.2.
TEST(MatmulTime, PowerLimited) {
  const MatmulShape shape = {.m = 4096, .n = 4096, .k = 4096};
  DeviceRates rates = kA100Rates;
  rates.sustained_time_ratio = 1.1;
  rates.power_time_ratio = 1.2;
  EXPECT_NEAR(MatmulTime(shape, A100Chip(), rates, false).count(), 682.198e-6, 2e-9);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
