#include "cli/reports/sweep_report.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/reports/words.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

v1::SweepResponse Parse(const std::string& text) {
  v1::SweepResponse message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

std::string Best(double step, double fits, const std::string& rest = "") {
  return "plan { tensor_parallel: 2 pipeline_parallel: 1 data_parallel: 4 } estimate { "
         "step_time_seconds: " +
         std::to_string(step) + " fit_probability_ratio: " + std::to_string(fits) + " } " + rest;
}

constexpr char kRun[] =
    "run { step_count: 476838 days: 27.31 low_days: 24 high_days: 31 device_hours: 335360 "
    "max_device_energy_kilowatt_hours: 234752 price: 838400.4 is_within_max_days: true }";

TEST(SweepReportTest, ShowsHowSurelyEachPointFits) {
  const auto sweep = Parse("points { device_count: 8 is_on_front: true best {" + Best(10, 0.97) +
                           "} } points { device_count: 16 } warnings: 'careful'");
  const std::string report = SweepReport(sweep, {}, 100);
  EXPECT_THAT(report, HasSubstr("  97 %  *"));
  EXPECT_THAT(report, HasSubstr("nothing fits"));
  EXPECT_THAT(report, HasSubstr("warning: careful\n"));
  EXPECT_THAT(report, AllOf(HasSubstr("memory left"), Not(HasSubstr("cluster"))));
}

// Every point says why its plan is the one to launch.
TEST(SweepReportTest, SaysWhy) {
  const auto sweep =
      Parse("points { device_count: 1 best {" + Best(10, 0.97) + "} launch {" + Best(11, 0.99) +
            " reason: 'It is surer.' } } points { device_count: 16 "
            "free_memory_ratio: 0.2 best {" +
            Best(5, 0.97) + "} launch {" + Best(6, 0.99) + " reason: 'It is plainer.' } }");
  const std::string report = SweepReport(sweep, {}, 100);
  EXPECT_THAT(report, HasSubstr("\n1 device: It is surer.\n"));
  EXPECT_THAT(report, HasSubstr("\n16 devices with 20.0 % of the memory left: It is plainer.\n"));
  EXPECT_THAT(report, HasSubstr("11.0 s"));
  EXPECT_THAT(report, Not(HasSubstr("10.0 s")));
}

TEST(SweepReportTest, ARunHasItsDaysAndPrice) {
  const auto sweep = Parse("points { device_count: 8 best {" + Best(10, 0.97, kRun) +
                           "} } recommended_index: 0 reason: '8 devices of c'");
  const std::string report = SweepReport(sweep, {{"", 2.5}}, 120);
  EXPECT_THAT(report, HasSubstr("Take 8 devices of c.\n"));
  for (const char* const part : {"days", "27.3", "335,360", "234,752", "838,400", "\n*"}) {
    EXPECT_THAT(report, HasSubstr(part));
  }
  EXPECT_THAT(report, Not(HasSubstr("1e6 tokens")));
}

// The plan to launch stands in place of the fastest one, with its flags.
TEST(SweepReportTest, EachOfSeveralClustersHasItsLaunch) {
  const std::string launch =
      "exports { key: 'torchtitan' value: 'text' } launches { key: 'torchtitan' value { file_name: "
      "'f.toml' command: 'run' } }";
  const auto sweep = Parse("points { device_count: 8 cluster_name: 'one' best {" + Best(10, 0.97) +
                           "} launch {" + Best(11, 0.99, launch) +
                           "} } points { device_count: 16 cluster_index: 1 cluster_name: 'two' "
                           "best {" +
                           Best(5, 0.97, launch) + "} }");
  const std::string report = SweepReport(sweep, {}, 100);
  EXPECT_THAT(report, AllOf(HasSubstr("11.0 s"), Not(HasSubstr("10.0 s")), HasSubstr("5.00 s")));
  EXPECT_THAT(report, HasSubstr("The plan for 8 devices of one, for torchtitan\n"));
  EXPECT_THAT(report, HasSubstr("The plan for 16 devices of two, for torchtitan\n"));
}

TEST(SweepReportTest, NoSizeIsEnough) {
  const auto sweep = Parse("points { device_count: 8 best {" + Best(10, 0.97, kRun) +
                           "} } reason: 'the run ends too late'");
  EXPECT_THAT(SweepReport(sweep, {}, 100),
              HasSubstr("No size is enough: the run ends too late.\n"));
}

TEST(SweepReportTest, AChipsOwnPriceCounts) {
  const DeviceHourPrices prices = {{"", 2}, {"a", 3}};
  EXPECT_EQ(PriceOf(prices, "a"), 3);
  EXPECT_EQ(PriceOf(prices, "b"), 2);
  EXPECT_EQ(PriceOf({{"a", 3}}, "b"), std::nullopt);
}

TEST(RunWordsTest, SayWhatARunTakes) {
  v1::SweepResponse sweep = Parse("points { best {" + Best(10, 0.97, kRun) + "} }");
  v1::RunCost& run = *sweep.mutable_points(0)->mutable_best()->mutable_run();
  EXPECT_EQ(RunWords(run),
            "The run's 476,838 steps take 27.3 days (24 to 31) and 335,360 device-hours, at a "
            "price of 838,400. The devices use at most 234,752 kWh.");
  run.clear_price();
  run.clear_max_device_energy_kilowatt_hours();
  run.set_is_within_max_days(false);
  EXPECT_EQ(RunWords(run),
            "The run's 476,838 steps take 27.3 days (24 to 31) and 335,360 device-hours. That is "
            "longer than you allow.");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
