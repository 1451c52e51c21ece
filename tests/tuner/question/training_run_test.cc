#include "server/tuner/question/training_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/run_cost.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

// Four devices of 400 W; a step has 16 x 1,024 tokens.
Problem FourDevices() {
  Question question = TinyQuestion();
  question.cluster.pools.front().power_limit_watts = 400;
  return Resolved(question);
}

Estimate Taking(double seconds) {
  Estimate estimate;
  estimate.step_time = Seconds(seconds);
  estimate.step_time_low = Seconds(seconds / 2);
  estimate.step_time_high = Seconds(seconds * 2);
  return estimate;
}

// 16,384,000 tokens are 1,000 steps; a step of 86.4 s makes a day of them, 96 device-hours, and
// 96 x 0.4 kWh.
TEST(RunCostTest, IsStepsTimesTheStep) {
  const RunCost cost = RunCostOf({.token_count = 16'384'000}, FourDevices(), Taking(86.4));
  EXPECT_EQ(cost.step_count, 1000);
  EXPECT_DOUBLE_EQ(cost.days, 1);
  EXPECT_DOUBLE_EQ(cost.low_days, 0.5);
  EXPECT_DOUBLE_EQ(cost.high_days, 2);
  EXPECT_DOUBLE_EQ(cost.device_hours, 96);
  ASSERT_TRUE(cost.max_device_energy_kilowatt_hours.has_value());
  EXPECT_DOUBLE_EQ(*cost.max_device_energy_kilowatt_hours, 38.4);
  EXPECT_EQ(cost.price, std::nullopt);
  EXPECT_EQ(cost.is_within_max_days, std::nullopt);
}

TEST(RunCostTest, ABegunStepIsWhole) {
  EXPECT_EQ(RunCostOf({.token_count = 16'384'001}, FourDevices(), Taking(1)).step_count, 1001);
  EXPECT_EQ(RunCostOf({.token_count = 1}, FourDevices(), Taking(1)).step_count, 1);
}

TEST(RunCostTest, UnknownPowerIsNoEnergy) {
  Problem problem = FourDevices();
  problem.cluster.pools.front().power_limit_watts = 0;
  EXPECT_EQ(RunCostOf({.token_count = 1}, problem, Taking(1)).max_device_energy_kilowatt_hours,
            std::nullopt);
}

TEST(RunCostTest, AChipsOwnPriceCounts) {
  const Problem problem = FourDevices();
  const std::string chip = problem.cluster.pools.front().chip.id;
  TrainingRun run = {.token_count = 16'384'000,
                     .device_hour_prices = {{.price = 3}, {.price = 2, .chip = chip}}};
  EXPECT_DOUBLE_EQ(RunCostOf(run, problem, Taking(86.4)).price.value(), 192);
  run.device_hour_prices.back().chip = "another";
  EXPECT_DOUBLE_EQ(RunCostOf(run, problem, Taking(86.4)).price.value(), 288);
  run.device_hour_prices.erase(run.device_hour_prices.begin());
  EXPECT_EQ(RunCostOf(run, problem, Taking(86.4)).price, std::nullopt);
}

TEST(RunCostTest, TheLimitIsInclusive) {
  const TrainingRun run = {.token_count = 16'384'000, .max_days = 1};
  EXPECT_EQ(RunCostOf(run, FourDevices(), Taking(86.4)).is_within_max_days, true);
  EXPECT_EQ(RunCostOf(run, FourDevices(), Taking(86.5)).is_within_max_days, false);
}

TEST(TrainingRunTest, EveryMistakeIsNamed) {
  EXPECT_THAT(Validate(TrainingRun{.token_count = 1, .max_days = 36'500}), IsEmpty());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::string> fields;
  for (const FieldViolation& found : Validate(
           TrainingRun{.token_count = 0.5,
  .max_days = 0,
  .device_hour_prices = {{.price = -1}, {.price = nan, .chip = "a"}, {.price = 1, .chip = "a"}}})) {
    fields.push_back(found.field);
  }
  EXPECT_THAT(fields, ElementsAre("token_count", "max_days", "device_hour_prices[0].price",
                                  "device_hour_prices[1].price", "device_hour_prices[2]"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
