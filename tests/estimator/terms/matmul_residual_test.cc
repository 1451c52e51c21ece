#include "estimator/terms/matmul_residual.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <vector>

#include "estimator/terms/kernel.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

GemmResidual At(double count, double m, double n, double k, double ratio) {
  return {.log_count = std::log(count),
          .log_m = std::log(m),
          .log_n = std::log(n),
          .log_k = std::log(k),
          .log_time_ratio = std::log(ratio)};
}

// Two shapes farther apart than the reach of neighbours, with logarithms of 1.21 and 1: mean
// log(1.1).
std::vector<GemmResidualTable> Tables() {
  std::vector<GemmResidualTable> tables = {
      {.precision = Precision::kBf16,
       .shapes = {At(1, 1024, 1024, 1024, 1.21), At(1, 8192, 8192, 8192, 1)}},
      {.precision = Precision::kBf16,
       .pass = GemmPass::kWeightGradient,
       .shapes = {At(1, 1024, 1024, 1024, 2)}},
      {.precision = Precision::kBf16,
       .is_grouped = true,
       .shapes = {At(8, 1024, 1024, 1024, 3), At(64, 1024, 1024, 1024, 4)}},
  };
  for (GemmResidualTable& table : tables) IndexShapes(table);
  return tables;
}

struct Case {
  const char* name;
  MatmulShape shape;
  double expected;
  Precision precision = Precision::kBf16;
  GemmPass pass = GemmPass::kForward;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// At a measured shape the shape itself weighs 1, the mean of the table 0.1.
const double kAtFirst = std::exp((std::log(1.21) + 0.1 * std::log(1.1)) / 1.1);
const double kAtSecond = std::exp(0.1 * std::log(1.1) / 1.1);
// log 1.5 = 0.405465 away in n: weight (1 - 0.164402)^2 = 0.698224.
const double kBeside =
    std::exp((0.698224 * std::log(1.21) + 0.1 * std::log(1.1)) / (0.698224 + 0.1));

const Case kCases[] = {
    {"AtAShape", {.m = 1024, .n = 1024, .k = 1024}, kAtFirst},
    {"BesideIt", {.m = 1024, .n = 1536, .k = 1024}, kBeside},
    {"FarFromAll", {.m = 1024, .n = 8192, .k = 1024}, 1.1},
    {"BelowTheEdge", {.m = 16, .n = 1024, .k = 1024}, kAtFirst},
    {"BeyondTheEdge", {.m = 1e6, .n = 1e6, .k = 1e6}, kAtSecond},
    {"Fp16AsBf16", {.m = 1024, .n = 1024, .k = 1024}, kAtFirst, Precision::kFp16},
    {"NoTableOfPrecision", {.m = 1024, .n = 1024, .k = 1024}, 1, Precision::kFp8},
    {"PassOfItsOwn",
     {.m = 1024, .n = 1024, .k = 1024},
     2,
     Precision::kBf16,
     GemmPass::kWeightGradient},
    {"InputGradientAsAny",
     {.m = 1024, .n = 1024, .k = 1024},
     kAtFirst,
     Precision::kBf16,
     GemmPass::kInputGradient},
    // (log 4 + 0.1 mean(log 3, log 4)) / 1.1
    {"Grouped",
     {.m = 1024, .n = 1024, .k = 1024, .count = 64, .is_grouped = true},
     std::exp((std::log(4) + 0.05 * std::log(12)) / 1.1)},
    {"BatchedIsNotGrouped", {.m = 1024, .n = 1024, .k = 1024, .count = 64}, 1},
    {"Unaligned", {.m = 1024, .n = 1024, .k = 1024, .is_aligned = false}, 1},
    {"Nothing", {.m = 0, .n = 1024, .k = 1024}, 1},
};

class ResidualRatioTest : public testing::TestWithParam<Case> {};

TEST_P(ResidualRatioTest, MeanOfNeighbours) {
  const Case& c = GetParam();
  EXPECT_NEAR(ResidualRatio(Tables(), c.precision, c.pass, c.shape), c.expected, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ResidualRatioTest, testing::ValuesIn(kCases),
                         [](const auto& c) { return c.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
