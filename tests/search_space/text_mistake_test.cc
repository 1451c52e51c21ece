#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "search_space/base/clean_text.h"
#include "search_space/base/json_text.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using std::string_literals::operator""s;
using testing::ElementsAre;
using testing::IsEmpty;

struct Case {
  std::string name;
  std::string text;
  std::optional<std::string> mistake;
  TextLayout layout = TextLayout::kOneLine;
};

const Case kCases[] = {
    {"Plain", "llama-2 70b", std::nullopt},
    {"Empty", "", std::nullopt},
    {"OtherScripts", "\u5185\u5b58 \U0001F600 \u00a0", std::nullopt},
    {"Nul", "gelu\0x"s, R"("gelu\u0000x"; must have no control characters, but byte 5 is U+0000)"},
    {"Escape", "\x1B[2J", R"("\u001b[2J"; must have no control characters, but byte 1 is U+001B)"},
    {"Delete", "a\x7F", R"("a\u007f"; must have no control characters, but byte 2 is U+007F)"},
    {"C1", "a\u009b1m", R"("a\u009b1m"; must have no control characters, but byte 2 is U+009B)"},
    {"NoUtf8", "a\xff", R"("a\xff"; must be UTF-8, but byte 2 is not)"},
    {"TheFirstIsNamed", "\xff\n", R"("\xff\u000a"; must be UTF-8, but byte 1 is not)"},
    {"LineFeed", "a\nb", R"("a\u000ab"; must have no control characters, but byte 2 is U+000A)"},
    {"LineFeedInLines", "a\n\tb", std::nullopt, TextLayout::kLines},
    {"ReturnInLines", "a\rb",
     R"("a\u000db"; must have no control characters, but byte 2 is U+000D)", TextLayout::kLines},
};

class TextMistakeTest : public testing::TestWithParam<Case> {};

TEST_P(TextMistakeTest, NamesTheFirst) {
  EXPECT_EQ(TextMistake(GetParam().text, GetParam().layout), GetParam().mistake);
}

INSTANTIATE_TEST_SUITE_P(All, TextMistakeTest, testing::ValuesIn(kCases),
                         [](const auto& row) { return row.param.name; });

TEST(QuotedTextTest, LongTextsAreCut) {
  EXPECT_EQ(QuotedText(std::string(60, 'a')), "\"" + std::string(60, 'a') + "\"");
  EXPECT_EQ(QuotedText(std::string(70, 'a')), "\"" + std::string(60, 'a') + "\" and 10 more bytes");
}

TEST(JsonTextMistakesTest, NamesEveryString) {
  const auto json = nlohmann::json::parse(
      R"({"a": "x\n", "b": [{"c": "y"}, {"d": "\u001b"}], "e\u0000f": 1, "g": 2})");
  const auto fields = [&](TextLayout layout) {
    std::vector<std::string> names;
    for (const FieldViolation& mistake : JsonTextMistakes(json, "file", layout)) {
      names.push_back(mistake.field);
    }
    return names;
  };
  EXPECT_THAT(fields(TextLayout::kOneLine), ElementsAre("file.a", "file.b[1].d", "file.e f"));
  EXPECT_THAT(fields(TextLayout::kLines), ElementsAre("file.b[1].d", "file.e f"));
  EXPECT_THAT(
      JsonTextMistakes(nlohmann::json::parse(R"({"a": ["b", 1, null]})"), "", TextLayout::kOneLine),
      IsEmpty());
}

// Nesting is limited, because each level uses stack.
TEST(JsonTextMistakesTest, ADeepValueIsAMistake) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const auto json = nlohmann::json::parse(deep);
  const auto mistakes = JsonTextMistakes(json, "", TextLayout::kOneLine);
  ASSERT_EQ(mistakes.size(), 1U);
  EXPECT_EQ(mistakes.front().description, "nested deeper than 64 levels");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
