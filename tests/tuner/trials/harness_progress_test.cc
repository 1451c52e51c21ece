#include "server/tuner/trials/harness_progress.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct ProgressCase {
  std::string name;
  std::string text;
  std::optional<HarnessProgress> progress;
};

void PrintTo(const ProgressCase& c, std::ostream* out) { *out << c.name; }

constexpr char kFirst[] =
    R"({"meshwright_progress":1,"attempt":"a","token":7,"time_ms":1,"state":"STARTING","steps":0,)"
    R"("step_time_seconds":null})"
    "\n";
constexpr char kSecond[] =
    R"({"meshwright_progress":1,"attempt":"a","token":7,"time_ms":2,"state":"MEASURING","steps":12,)"
    R"("step_time_seconds":0.5})"
    "\n";
const HarnessProgress kStarting = {.state = "starting", .step_count = 0};
const HarnessProgress kMeasuring = {.state = "measuring", .step_count = 12};

const ProgressCase kCases[] = {
    {"First", kFirst, kStarting},
    {"Last", std::string(kFirst) + kSecond, kMeasuring},
    {"HalfALine", std::string(kSecond) + R"({"meshwright_pro)", kMeasuring},
    {"Long", std::string(9000, 'x') + "\n" + kSecond, kMeasuring},
    {"Empty", "", std::nullopt},
    {"NoLineYet", R"({"token":7)", std::nullopt},
    {"NoJson", "text\n", std::nullopt},
    {"NoObject", "[7]\n", std::nullopt},
    {"OtherToken",
     R"({"token":6,"state":"WARMUP","steps":1})"
     "\n",
     std::nullopt},
    {"OtherState",
     R"({"token":7,"state":"IDLE","steps":1})"
     "\n",
     std::nullopt},
    {"NoSteps",
     R"({"token":7,"state":"WARMUP"})"
     "\n",
     std::nullopt},
    {"ManySteps",
     R"({"token":7,"state":"WARMUP","steps":9000000000})"
     "\n",
     HarnessProgress{.state = "warmup", .step_count = 2147483647}},
};

class HarnessProgressTest : public testing::TestWithParam<ProgressCase> {};

TEST_P(HarnessProgressTest, IsTheLastWholeLine) {
  std::string folder = testing::TempDir() + "harness_progress.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  EXPECT_EQ(ReadHarnessProgress(folder, "a", 7), std::nullopt);  // not there yet
  std::ofstream(folder + "/a.progress.jsonl") << GetParam().text;
  EXPECT_EQ(ReadHarnessProgress(folder, "a", 7), GetParam().progress);
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(All, HarnessProgressTest, testing::ValuesIn(kCases),
                         [](const auto& each) { return each.param.name; });

// A read may fail on a remote file system.
TEST(HarnessProgressFileTest, WhatCannotBeReadIsNoProgress) {
  const std::string folder = testing::TempDir() + "harness_progress_folder";
  std::filesystem::create_directories(folder + "/a.progress.jsonl");
  EXPECT_EQ(ReadHarnessProgress(folder, "a", 7), std::nullopt);
  std::filesystem::remove_all(folder);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
