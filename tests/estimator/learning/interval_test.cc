#include "estimator/learning/interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/learning/error_sources.h"
#include "estimator/learning/run_residuals.h"
#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"
#include "vendor_models/chip_file.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

double Width(const Estimate& e) { return e.step_time_high / e.step_time_low; }

constexpr ParallelPlan kPlan = {.tensor_parallel = 8, .data_parallel = 2, .zero_stage = 1};

OwnedProblem A100Problem() {
  return FrameworkProblem(Llama2_7b(), "nvidia-a100-sxm4-80gb", 2, "megatron-core");
}

TEST(Interval, HoldsTheStepTime) {
  OwnedProblem problem = A100Problem();
  problem.profile.low_time_ratio = 0.85;
  problem.profile.high_time_ratio = 1.35;  // runs are slowed more often than sped up
  const Estimate estimate = FullOf(problem, kPlan);
  EXPECT_LT(estimate.step_time_low, estimate.step_time);
  EXPECT_LT(estimate.step_time, estimate.step_time_high);
  EXPECT_GT(estimate.step_time_high / estimate.step_time,
            estimate.step_time / estimate.step_time_low);
}

// The same figures with less behind them: the answer says so and is wider.
TEST(Interval, WiderForAnUnmeasuredChip) {
  OwnedProblem problem = A100Problem();
  const Estimate known = FullOf(problem, kPlan);
  ChipSpec& chip = problem.cluster.pools.front().chip;
  chip.gemm_provenance = chip.attention_provenance = chip.collectives_provenance =
      chip.memory_bound_provenance = Provenance::kAssumed;
  const Estimate unknown = FullOf(problem, kPlan);
  EXPECT_EQ(unknown.step_time, known.step_time);
  EXPECT_GT(Width(unknown), 1.1 * Width(known));
  EXPECT_GT(unknown.provenance, known.provenance);
}

// The variance above a step time, undone from the interval.
double VarianceAbove(const Estimate& e) {
  return std::pow(std::log(e.step_time_high / e.step_time) / kCentral80, 2);
}

TEST(Interval, TellsItsSources) {
  OwnedProblem problem = A100Problem();
  problem.profile.high_time_ratio = 1.2;
  ChipSpec& chip = problem.cluster.pools.front().chip;
  chip.gemm_provenance = Provenance::kPublished;
  problem.profile.checked_chips = {chip.id};
  const Estimate estimate = FullOf(problem, kPlan);
  const double rounding = 0.002 * VarianceAbove(estimate);  // sources that are too small to tell
  const std::map<std::string, double>& shares = estimate.uncertainty_ratio_by_source;
  double sum = 0;
  for (const auto& [source, share] : shares) sum += share;
  EXPECT_NEAR(sum, 1, 1e-12);
  // The scatter of the framework's runs and published figures of 0.15, as the page says.
  EXPECT_NEAR(shares.at("framework") * VarianceAbove(estimate),
              std::pow(std::log(1.2) / kCentral80, 2), rounding);
  const double matmul =
      estimate.breakdown[static_cast<std::size_t>(TimeCause::kMatmul)] / estimate.step_time;
  EXPECT_NEAR(shares.at("matmul") * VarianceAbove(estimate), std::pow(0.15 * matmul, 2), rounding);
  EXPECT_EQ(shares.count("chips"), 0U);  // runs on this chip were checked
  EXPECT_EQ(estimate.breakdown_provenance.at(TimeCause::kMatmul), Provenance::kPublished);
  EXPECT_EQ(estimate.breakdown_provenance.count(TimeCause::kContextParallel), 0U);  // takes no time

  problem.profile.checked_chips.clear();
  const Estimate elsewhere = FullOf(problem, kPlan);
  EXPECT_NEAR(elsewhere.uncertainty_ratio_by_source.at("chips") * VarianceAbove(elsewhere),
              0.05 * 0.05, rounding);
}

// A run of the plan itself takes the place of the framework's scatter.
TEST(Interval, OfMeasuredRunsTellsThem) {
  const OwnedProblem problem = A100Problem();
  const ChipSpec& chip = problem.cluster.pools.front().chip;
  const Estimate estimate = FullOf(problem, kPlan);
  const PlanPoint point = {.work = 21};
  Calibration calibration;
  const auto shares = [&] {
    return SpreadOf(estimate, chip, problem.View(), {}, calibration, point)
        .uncertainty_ratio_by_source;
  };
  EXPECT_EQ(shares().count("measured_runs"), 0U);
  const double before = shares().at("framework");
  calibration.time = FitResiduals(std::vector<RunResidual>{{.point = point}}, kTimePrior);
  EXPECT_GT(shares().at("measured_runs"), 0);
  EXPECT_LT(shares().at("framework"), before);
}

// Replicas that differ add a spread of 0.16, until a run of such a plan is known.
TEST(Interval, WiderForReplicasThatDiffer) {
  const OwnedProblem problem = A100Problem();
  const ChipSpec& chip = problem.cluster.pools.front().chip;
  const Estimate estimate = FullOf(problem, kPlan);
  const PlanPoint alike = {.work = 21};
  PlanPoint differ = alike;
  differ.replicas_differ = true;
  Calibration calibration;
  const auto spread_at = [&](const PlanPoint& point) {
    return SpreadOf(estimate, chip, problem.View(), {}, calibration, point);
  };
  EXPECT_DOUBLE_EQ(spread_at(differ).time_high, std::hypot(spread_at(alike).time_high, 0.16));
  EXPECT_DOUBLE_EQ(spread_at(differ).time_low, std::hypot(spread_at(alike).time_low, 0.16));
  EXPECT_EQ(spread_at(differ).memory, spread_at(alike).memory);
  // A run of another kind of plan leaves it open; one of this kind does not.
  calibration.time = FitResiduals(std::vector<RunResidual>{{.point = alike}}, kTimePrior);
  EXPECT_DOUBLE_EQ(UnconfirmedVariance(differ, calibration), 0.16 * 0.16);
  calibration.time = FitResiduals(std::vector<RunResidual>{{.point = differ}}, kTimePrior);
  EXPECT_EQ(UnconfirmedVariance(differ, calibration), 0);
  EXPECT_EQ(UnconfirmedVariance(alike, calibration), 0);
}

// Figures that nobody has confirmed widen it, whatever their provenance.
TEST(Interval, WiderWhereConfidenceIsLow) {
  OwnedProblem problem = A100Problem();
  const Estimate known = FullOf(problem, kPlan);
  problem.cluster.pools.front().chip.confidence = Confidence::kLow;
  const Estimate doubtful = FullOf(problem, kPlan);
  EXPECT_EQ(doubtful.step_time, known.step_time);
  EXPECT_GT(Width(doubtful), 1.05 * Width(known));
}

// Every chip of the catalogue whose GEMM constants are assumed has a wider interval than the A100.
TEST(Interval, WiderForChipsOfTheCatalogueWithoutFits) {
  const double known = Width(FullOf(A100Problem(), kPlan));
  int seen = 0;
  for (const ChipEntry& entry : Chips().chips()) {
    const ChipSpec& chip = entry.spec;
    if (chip.gemm_provenance != Provenance::kAssumed || !chip.peak.contains(Precision::kBf16)) {
      continue;
    }
    const OwnedProblem problem = FrameworkProblem(Llama2_7b(), chip.id, 2, "megatron-core");
    EXPECT_GT(Width(FullOf(problem, kPlan)), known) << chip.id;
    ++seen;
  }
  EXPECT_GT(seen, 0);
}

// Residuals of measured runs replace the uncertainty of the constants.
TEST(Interval, NarrowerAfterCalibration) {
  const OwnedProblem problem = A100Problem();
  const std::vector<RunResidual> runs(
      10, {.log_ratio = std::log(1.1), .point = PointOf(kPlan, problem.View())});
  const FittedResiduals fitted = FitResiduals(runs, kTimePrior);
  const Calibration calibration = {
      .time_ratio = std::exp(JobLogFactor(fitted)), .memory_ratio = 1.05, .time = fitted};
  const Estimate cold = AnalyticModel(problem.View()).Full(kPlan);
  const Estimate warm = AnalyticModel(problem.View(), calibration).Full(kPlan);
  EXPECT_LT(Width(warm), Width(cold));
  EXPECT_NEAR(warm.step_time / cold.step_time, 1.1, 0.01);
  EXPECT_NEAR(warm.peak_memory / cold.peak_memory, 1.05, 1e-9);
}

// A measured plan of this size that ran out of memory outweighs the model.
TEST(Fits, NotWhatHasFailed) {
  const OwnedProblem problem = A100Problem();
  const Estimate cold = FullOf(problem, kPlan);
  ASSERT_TRUE(cold.fits);
  const auto fits = [&](Bytes failed) {
    const FailedRun run = {.reserved_memory = failed, .memory_capacity = cold.memory_capacity};
    return AnalyticModel(problem.View(), {.out_of_memory = run}).Full(kPlan).fits;
  };
  EXPECT_FALSE(fits(cold.reserved_memory));
  EXPECT_TRUE(fits(cold.reserved_memory + Bytes{1}));
}

// The median of a log-normal is exceeded in half of the cases; one sigma below in 15.87 %.
TEST(ProbabilityBelow, ByHand) {
  EXPECT_DOUBLE_EQ(ProbabilityBelow(10, 10, 0.05), 0.5);
  EXPECT_NEAR(ProbabilityBelow(10, 10 * std::exp(0.05), 0.05), 0.841345, 1e-6);
  EXPECT_NEAR(ProbabilityBelow(10, 10 * std::exp(-0.05), 0.05), 0.158655, 1e-6);
  EXPECT_EQ(ProbabilityBelow(0, 10, 0.05), 1);
  // kCentral80 leaves 10 % on each side.
  EXPECT_NEAR(ProbabilityBelow(10, 10 * std::exp(0.3 * kCentral80), 0.3), 0.9, 1e-12);
}

TEST(FitProbability, HalfAtCapacityAndMonotone) {
  OwnedProblem problem = A100Problem();
  const Bytes reserved = FullOf(problem, kPlan).reserved_memory;
  double last = 0;
  for (int percent = 60; percent <= 160; percent += 5) {
    problem.cluster.pools.front().memory_capacity = Scale(reserved, percent / 100.0);
    const Estimate estimate = FullOf(problem, kPlan);
    EXPECT_GE(estimate.fit_probability, last);
    EXPECT_EQ(estimate.fits, percent >= 100) << percent;
    if (percent == 100) {
      EXPECT_DOUBLE_EQ(estimate.fit_probability, 0.5);
    }
    last = estimate.fit_probability;
  }
  EXPECT_GT(last, 0.999);
}

// If a chip's operators were measured and the framework was checked on it, only the spread of the
// framework's runs is left.
TEST(Interval, OfTheProfileForAMeasuredChip) {
  OwnedProblem problem = A100Problem();
  ChipSpec& chip = problem.cluster.pools.front().chip;
  chip.gemm_provenance = chip.attention_provenance = chip.collectives_provenance =
      chip.memory_bound_provenance = Provenance::kMeasured;
  problem.profile.provenance = Provenance::kFitted;
  problem.profile.low_time_ratio = 0.8;
  problem.profile.high_time_ratio = 1.25;
  problem.profile.checked_chips = {chip.id};
  problem.profile.checked_device_count = 16;
  problem.cluster.pools.front().memory_capacity = GiB(1000);  // no pressure
  const Estimate estimate = FullOf(problem, kPlan);
  EXPECT_NEAR(estimate.step_time_low / estimate.step_time, 0.8, 1e-12);
  EXPECT_NEAR(estimate.step_time_high / estimate.step_time, 1.25, 1e-12);
  // With assumed constants both ends are farther out.
  chip.gemm_provenance = Provenance::kAssumed;
  const Estimate assumed = FullOf(problem, kPlan);
  EXPECT_EQ(assumed.step_time, estimate.step_time);
  EXPECT_LT(assumed.step_time_low, estimate.step_time_low);
  EXPECT_GT(assumed.step_time_high, estimate.step_time_high);
}

struct SpreadCase {
  const char* name;
  Provenance gemm;
  Provenance collectives;
  double low_time_ratio;
  double high_time_ratio;
  double expected_low;
  double expected_high;
};

void PrintTo(const SpreadCase& c, std::ostream* out) { *out << c.name; }

// A step of 10 s: 6 s of GEMMs, 4 s of tensor-parallel collectives. sqrt(sigma^2 + sum of (share x
// sigma of its constants)^2), sigma = ln(ratio) / kCentral80; assumed constants have 0.25,
// published ones 0.15, transferred ones 0.06 (docs/cost_model/intervals.md).
const SpreadCase kSpreadCases[] = {
    // ln(1 / e^(-0.2 k)) / k
    {"Measured", Provenance::kMeasured, Provenance::kFitted, std::exp(-0.2 * kCentral80),
     std::exp(0.3 * kCentral80), 0.2, 0.3},
    // (0.6 x 0.25)^2 = 0.0225; sqrt(0.04 + 0.0225) = 0.25; sqrt(0.0225) where nothing was slower
    {"AssumedGemm", Provenance::kAssumed, Provenance::kMeasured, std::exp(-0.2 * kCentral80), 1,
     0.25, 0.15},
    // (0.6 x 0.15)^2 + (0.4 x 0.25)^2 = 0.0081 + 0.01; sqrt = 0.134536; + 0.04: 0.241039
    {"PublishedAndAssumed", Provenance::kPublished, Provenance::kAssumed, 1,
     std::exp(0.2 * kCentral80), 0.134536, 0.241039},
    // (0.6 x 0.06)^2; ratios on the other side of 1 leave no spread of their own.
    {"Transferred", Provenance::kTransferred, Provenance::kMeasured, 1.1, 0.9, 0.036, 0.036},
};

class SpreadTest : public testing::TestWithParam<SpreadCase> {};

TEST_P(SpreadTest, ByHand) {
  const SpreadCase& c = GetParam();
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.profile.provenance = Provenance::kFitted;
  problem.profile.low_time_ratio = c.low_time_ratio;
  problem.profile.high_time_ratio = c.high_time_ratio;
  problem.profile.checked_chips = {"plain"};
  problem.profile.checked_device_count = 8;
  ChipSpec chip;
  chip.confidence = Confidence::kHigh;
  chip.gemm_provenance = c.gemm;
  chip.collectives_provenance = c.collectives;
  Estimate estimate;
  estimate.step_time = Seconds(10);
  estimate.breakdown[static_cast<std::size_t>(TimeCause::kMatmul)] = Seconds(6);
  estimate.breakdown[static_cast<std::size_t>(TimeCause::kTensorParallel)] = Seconds(4);
  estimate.memory_capacity = GiB(80);
  const Spread spread = SpreadOf(estimate, chip, problem.View(), {}, {}, {});
  EXPECT_NEAR(spread.time_low, c.expected_low, 1e-6);
  EXPECT_NEAR(spread.time_high, c.expected_high, 1e-6);
  EXPECT_EQ(spread.provenance, std::max({c.gemm, c.collectives, Provenance::kFitted}));
}

INSTANTIATE_TEST_SUITE_P(All, SpreadTest, testing::ValuesIn(kSpreadCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct CheckedCase {
  const char* name;
  std::vector<std::string> checked_chips;
  int checked_device_count;
  std::vector<std::string> chips;  // one for each pool of 8 devices
  bool was_checked;
};

void PrintTo(const CheckedCase& c, std::ostream* out) { *out << c.name; }

// Every chip of the cluster was run, on at least a quarter of its devices.
const CheckedCase kCheckedCases[] = {
    {"SameRun", {"a"}, 8, {"a"}, true},
    {"Quarter", {"a"}, 2, {"a"}, true},
    {"LessThanAQuarter", {"a"}, 1, {"a"}, false},
    {"OtherChip", {"a"}, 8, {"b"}, false},
    {"OneOfSeveral", {"a", "b"}, 8, {"b"}, true},
    {"Nothing", {}, 0, {"a"}, false},
    {"BothPools", {"a", "b"}, 4, {"a", "b"}, true},
    {"OnePoolUnknown", {"a"}, 16, {"a", "b"}, false},
    {"PoolsCountTogether", {"a", "b"}, 3, {"a", "b"}, false},
};

class WasCheckedTest : public testing::TestWithParam<CheckedCase> {};

TEST_P(WasCheckedTest, ChipsAndScale) {
  const CheckedCase& c = GetParam();
  FrameworkProfile profile;
  profile.checked_chips = c.checked_chips;
  profile.checked_device_count = c.checked_device_count;
  ClusterSpec cluster;
  for (const std::string& chip : c.chips) {
    cluster.pools.push_back(PlainPool(1));
    cluster.pools.back().chip.id = chip;
  }
  EXPECT_EQ(WasChecked(profile, cluster), c.was_checked);
}

INSTANTIATE_TEST_SUITE_P(All, WasCheckedTest, testing::ValuesIn(kCheckedCases),
                         [](const auto& test) { return std::string(test.param.name); });

// An extrapolation adds 0.05 in squares: sqrt(0.12^2 + 0.05^2) = 0.13.
TEST(Spread, Extrapolated) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.profile.low_time_ratio = std::exp(-0.12 * kCentral80);
  problem.profile.high_time_ratio = 1;
  Estimate estimate;
  estimate.step_time = Seconds(10);
  estimate.memory_capacity = GiB(80);
  const ChipSpec& chip = problem.cluster.pools.front().chip;
  const Spread elsewhere = SpreadOf(estimate, chip, problem.View(), {}, {}, {});
  EXPECT_NEAR(elsewhere.time_low, 0.13, 1e-9);
  EXPECT_NEAR(elsewhere.time_high, 0.05, 1e-9);
  problem.profile.checked_chips = {"plain"};
  problem.profile.checked_device_count = 8;
  EXPECT_NEAR(SpreadOf(estimate, chip, problem.View(), {}, {}, {}).time_low, 0.12, 1e-9);
}

// Beyond the largest run that was checked, each doubling of the devices adds 0.05 in squares.
TEST(Spread, GrowsWithScale) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 4);  // 32 devices
  problem.profile.high_time_ratio = 1;
  problem.profile.checked_chips = {"plain"};
  Estimate estimate;
  estimate.step_time = Seconds(10);
  estimate.memory_capacity = GiB(80);
  const ChipSpec& chip = problem.cluster.pools.front().chip;
  for (const auto& [checked, sigma] :
       std::map<int, double>{{64, 0}, {32, 0}, {16, 0.05}, {8, 0.1}}) {
    problem.profile.checked_device_count = checked;
    EXPECT_NEAR(SpreadOf(estimate, chip, problem.View(), {}, {}, {}).time_high, sigma, 1e-9);
  }
}

// The exchange of experts is half of the step. Its assumed constants add 0.25 x 0.5, and if it
// crosses nodes 0.6 x 0.5 more in squares: sqrt(0.125^2 + 0.3^2) = 0.325.
TEST(Spread, ExpertsAcrossNodes) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.profile.high_time_ratio = 1;
  problem.profile.checked_chips = {"plain"};
  problem.profile.checked_device_count = 8;
  Estimate estimate;
  estimate.step_time = Seconds(10);
  estimate.memory_capacity = GiB(80);
  constexpr auto kExperts = static_cast<std::size_t>(TimeCause::kExpertParallel);
  estimate.breakdown[kExperts] = Seconds(5);
  const ChipSpec& chip = problem.cluster.pools.front().chip;
  EXPECT_NEAR(SpreadOf(estimate, chip, problem.View(), {}, {}, {}).time_high, 0.125, 1e-9);
  NodeCrossings crossings;
  crossings.set(kExperts);
  EXPECT_NEAR(SpreadOf(estimate, chip, problem.View(), crossings, {}, {}).time_high, 0.325, 1e-9);
}

// Above 0.9 of the memory the slow end is 1.3 times farther out; the fast end does not move.
TEST(Spread, MemoryPressure) {
  const OwnedProblem problem = A100Problem();
  Estimate estimate;
  estimate.step_time = Seconds(10);
  estimate.memory_capacity = Bytes{1000};
  const ChipSpec& chip = problem.cluster.pools.front().chip;
  estimate.reserved_memory = Bytes{900};
  const Spread roomy = SpreadOf(estimate, chip, problem.View(), {}, {}, {});
  estimate.reserved_memory = Bytes{901};
  const Spread tight = SpreadOf(estimate, chip, problem.View(), {}, {}, {});
  EXPECT_EQ(tight.time_low, roomy.time_low);
  EXPECT_DOUBLE_EQ(tight.time_high, 1.3 * roomy.time_high);
}

// 1.6449 is the 95th percentile of a normal distribution.
TEST(LargestMedianRatio, IsTheInverseOfProbabilityBelow) {
  EXPECT_NEAR(LargestMedianRatio(0.95, 0.05), std::exp(-1.6448536 * 0.05), 1e-7);
  EXPECT_NEAR(LargestMedianRatio(0.5, 0.1), 1, 1e-9);
  for (const double p : {0.01, 0.6, 0.9999}) {
    const double ratio = LargestMedianRatio(p, 0.07);
    EXPECT_GE(ProbabilityBelow(ratio, 1, 0.07), p);
    EXPECT_NEAR(ProbabilityBelow(ratio, 1, 0.07), p, 1e-9);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
