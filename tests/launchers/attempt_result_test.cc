#include "server/launchers/attempt_result.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace meshwright {
namespace {

using testing::HasSubstr;

struct TextCase {
  std::string name;
  std::string text;
  std::string message;
};

void PrintTo(const TextCase& c, std::ostream* out) { *out << c.name; }

const TextCase kTexts[] = {
    {"Empty", "", "is no JSON object"},
    {"Half", R"({"meshwright_result":1,)", "is no JSON object"},
    {"List", "[]", "is no JSON object"},
    {"OtherVersion", R"({"meshwright_result":2})", "is not of version 1"},
    {"NoToken", R"({"meshwright_result":1,"attempt":"a","class":"ok"})",
     "names no attempt, token or class"},
    {"UnknownClass", R"({"meshwright_result":1,"attempt":"a","token":1,"class":"odd"})",
     "class 'odd' is unknown"},
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

}  // namespace
}  // namespace meshwright
