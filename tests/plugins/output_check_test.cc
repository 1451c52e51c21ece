#include "server/plugins/output_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "search_space/base/units.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/plan_model.h"
#include "tests/plugins/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ParallelPlan Plan() { return {.tensor_parallel = 4, .pipeline_parallel = 2, .data_parallel = 2}; }

struct Case {
  std::string name;
  PlanFigures figures;
  std::string message = {};  // empty: possible
};

PlanFigures Of(double seconds) {
  return {.verdict = PlanVerdict::kOk, .step_time = Seconds(seconds)};
}

PlanFigures WithMemory(std::int64_t bytes) {
  PlanFigures figures = Of(100);
  figures.peak_memory = Bytes{bytes};
  return figures;
}

PlanFigures WithInterval(double low, double high) {
  PlanFigures figures = Of(100);
  figures.step_time_low = Seconds(low);
  figures.step_time_high = Seconds(high);
  return figures;
}

PlanFigures WithLines(double first, double second) {
  PlanFigures figures = Of(100);
  figures.breakdown = {{"matmul", Seconds(first)}, {"optimizer", Seconds(second)}};
  return figures;
}

// The model has 6.74e9 parameters. A step has 2^20 tokens: 6 x 6.5e9 (without embeddings) x 2^20
// FLOPs on 16 x 312e12 FLOP/s take 8.1 s at least. A device of 4 x 2 holds 6.74e9 / 8 x 2 bytes =
// 1.68e9.
const Case kCases[] = {
    {"Possible", Of(10)},
    {"Nan", Of(kNan), "nan s"},
    {"Infinite", Of(std::numeric_limits<double>::infinity()), "inf s"},
    {"Negative", Of(-1), "-1 s"},
    {"Zero", Of(0), "0 s"},
    {"EndlessStep", Of(1e300), "more than a year"},
    {"FasterThanPeak", Of(8), "nominal peak needs 8.1"},
    {"EnoughMemory", WithMemory(1'700'000'000)},
    {"TooLittleMemory", WithMemory(1'600'000'000), "parameters of a device take 168"},
    {"Interval", WithInterval(90, 110)},
    {"IntervalAside", WithInterval(101, 110), "interval"},
    {"IntervalNan", WithInterval(kNan, 110), "interval"},
    {"Lines", WithLines(60, 40)},
    {"LinesDoNotAddUp", WithLines(60, 30), "adds up to 90"},
    {"LineNegative", WithLines(110, -10), "breakdown has optimizer with -10"},
};

class OutputCheckTest : public testing::TestWithParam<Case> {};

TEST_P(OutputCheckTest, FindsWhatCannotBe) {
  const OutputCheck check(SmallProblem());
  PlanFigures figures = GetParam().figures;
  check.Apply(Plan(), figures);
  if (GetParam().message.empty()) {
    EXPECT_EQ(figures.verdict, PlanVerdict::kOk) << figures.reason;
  } else {
    EXPECT_EQ(figures.verdict, PlanVerdict::kError);
    EXPECT_THAT(figures.reason, HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(All, OutputCheckTest, testing::ValuesIn(kCases),
                         [](const auto& row) { return row.param.name; });

TEST(OutputCheckTest, ShardedWeightsAreDividedByTheirRanks) {
  const OutputCheck check(SmallProblem());
  ParallelPlan sharded = Plan();
  sharded.zero_stage = 3;
  EXPECT_NEAR(check.LeastMemory(Plan()) / check.LeastMemory(sharded), 2, 1e-6);
}

TEST(OutputCheckTest, OtherVerdictsAreLeftAlone) {
  const OutputCheck check(SmallProblem());
  PlanFigures figures = {.verdict = PlanVerdict::kUnsupported, .reason = "why"};
  check.Apply(Plan(), figures);
  EXPECT_EQ(figures.reason, "why");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
