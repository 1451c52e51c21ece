#include "server/launchers/jobs/attempt_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

TEST(AttemptResultTest, HowWellItWasMeasured) {
  const auto result = ParseAttemptResult(
      R"({"meshwright_result":1,"attempt":"a","token":1,"class":"ok","step_time_seconds":1.5,
          "start_time_ms":1000,"end_time_ms":3500,"steps":12,"step_time_low_seconds":1.4,"step_time_high_seconds":1.6,"spread_ratio":0.07,
          "environment":{"host":"n1","digest":"abc"},
          "suspect":[{"reason":"drift","message":"slower\nand slower"},{"load":1},7]})");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->run_time, Seconds(2.5));
  EXPECT_EQ(result->quality, (AttemptQuality{.step_count = 12,
                                             .step_time_low = Seconds(1.4),
                                             .step_time_high = Seconds(1.6),
                                             .spread_ratio = 0.07,
                                             .suspect_reasons = {"drift: slower and slower"},
                                             .environment = R"({"digest":"abc","host":"n1"})",
                                             .environment_digest = "abc"}));
}

struct TextCase {
  std::string name;
  std::string text;
  std::string message;
};

void PrintTo(const TextCase& c, std::ostream* out) { *out << c.name; }

const TextCase kTexts[] = {
    {"Empty", "", "is not a JSON object"},
    {"Half", R"({"meshwright_result":1,)", "is not a JSON object"},
    {"List", "[]", "is not a JSON object"},
    {"OtherVersion", R"({"meshwright_result":2})", "is not of version 1"},
    {"NoToken", R"({"meshwright_result":1,"attempt":"a","class":"ok"})",
     "lacks the attempt, the token or the class"},
    {"UnknownClass", R"({"meshwright_result":1,"attempt":"a","token":1,"class":"odd"})",
     "class \"odd\" is unknown"},
    {"NoTime", R"({"meshwright_result":1,"attempt":"a","token":1,"class":"ok"})",
     "step_time_seconds; must be a number > 0"},
    {"NegativeMemory",
     R"({"meshwright_result":1,"attempt":"a","token":1,"class":"ok","step_time_seconds":1,
         "peak_memory_bytes":-1})",
     "peak_memory_bytes = -1; must be >= 0"},
};

class BadResultTest : public testing::TestWithParam<TextCase> {};

TEST_P(BadResultTest, IsNamed) {
  const auto result = ParseAttemptResult(GetParam().text);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(All, BadResultTest, testing::ValuesIn(kTexts),
                         [](const auto& each) { return each.param.name; });

// A job may print what it likes, and its result goes into the store and to terminals.
TEST(AttemptResultTest, TextsAreCleaned) {
  const auto result = ParseAttemptResult(
      R"({"meshwright_result":1,"attempt":"a","token":1,"class":"crash","message":"a\u001b\nb",
          "log_head":"one\n\u0000two","log_tail":"x\u0007",
          "suspect":[{"reason":"load\u001b","message":"a\nb"}],
          "environment":{"digest":"d\u0001"}})");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->message, "a  b");
  EXPECT_EQ(result->log_head, "one\n two");
  EXPECT_EQ(result->log_tail, "x ");
  EXPECT_EQ(result->quality.suspect_reasons, std::vector<std::string>{"load : a b"});
  EXPECT_EQ(result->quality.environment_digest, "d ");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
