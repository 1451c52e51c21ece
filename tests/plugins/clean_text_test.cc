#include "search_space/base/clean_text.h"

#include <gtest/gtest.h>

#include "meshwright/costmodel/v1/costmodel.pb.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using namespace std::string_literals;

struct Case {
  std::string name;
  std::string text;
  TextForm form;
  std::string clean;
};

// "\u5185\u5b58" is of three bytes each.
const Case kCases[] = {
    {"Plain", "no such chip", {}, "no such chip"},
    {"Empty", "", {}, ""},
    {"CutInACharacter", "\u5185\u5b58", {.longest_bytes = 5}, "\u5185"},
    {"CutBetweenCharacters", "\u5185\u5b58", {.longest_bytes = 6}, "\u5185\u5b58"},
    {"EndInACharacter", "\u5185\u5b58", {.longest_bytes = 5, .keeps_end = true}, "\u5b58"},
    {"EndOfText", "abcdef", {.longest_bytes = 3, .keeps_end = true}, "def"},
    {"FourBytes", "\U0001F600", {}, "\U0001F600"},
    {"BrokenOff", "a\xE5\x86", {}, "a??"},
    {"LoneContinuation", "\x80z", {}, "?z"},
    {"Overlong", "\xC0\xAF", {}, "??"},
    {"OverlongOfThree", "\xE0\x80\xAF", {}, "???"},
    {"Surrogate", "\xED\xA0\x80", {}, "???"},
    {"AboveUnicode", "\xF4\x90\x80\x80", {}, "????"},
    {"NoSuchByte", "\xFF\xFE", {}, "??"},
    {"ControlInALine", "a\nb\tc\x1B[0m\x7F\0d"s, {}, "a b c [0m  d"},
    {"ControlOfTwoBytes", "a\u0085b", {}, "a b"},
    {"ControlInALog", "a\nb\tc\x1B\rd", {.keeps_lines = true}, "a\nb\tc  d"},
};

class CleanTextTest : public testing::TestWithParam<Case> {};

TEST_P(CleanTextTest, Cleans) {
  EXPECT_EQ(CleanText(GetParam().text, GetParam().form), GetParam().clean);
}

INSTANTIATE_TEST_SUITE_P(All, CleanTextTest, testing::ValuesIn(kCases),
                         [](const auto& row) { return row.param.name; });

// A message with the text can be read back, whatever the bytes and wherever the cut.
TEST(CleanTextTest, IsAlwaysReadBack) {
  for (unsigned seed = 0; seed < 2'000; ++seed) {
    std::string text;
    for (unsigned i = 0, x = seed * 2'654'435'761U + 1; i < 40; ++i) {
      x = x * 1'664'525U + 1'013'904'223U;
      text += (x >> 30) == 0 ? "\u5185" : std::string(1, static_cast<char>(x >> 24));
    }
    for (const bool keeps_end : {false, true}) {
      costmodel::v1::CandidateReason message;
      message.set_text(CleanText(text, {.longest_bytes = seed % 50, .keeps_end = keeps_end}));
      EXPECT_LE(message.text().size(), seed % 50);
      costmodel::v1::CandidateReason read;
      EXPECT_TRUE(read.ParseFromString(message.SerializeAsString())) << seed;
    }
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
