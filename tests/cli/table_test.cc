#include "cli/reports/table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/reports/text_width.h"
#include "cli/reports/wrap.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(TableTest, AlignsColumnsAndTrimsLines) {
  Table table({{.title = "rule"}, {.title = "plans", .align = Align::kRight}, {.title = "note"}});
  table.AddRow({"memory", "1,000", ""});
  table.AddRow({"topology", "7", "x"});
  EXPECT_EQ(table.Text("  "),
            "  rule      plans  note\n"
            "  memory    1,000\n"
            "  topology      7  x\n");
}

TEST(TableTest, WithoutTitlesHasNoTitleLine) {
  Table table({{}, {.align = Align::kRight}});
  table.AddRow({"a", "10"});
  table.AddRow({"bc", "1"});
  EXPECT_EQ(table.Text(""), "a   10\nbc   1\n");
}

// An East Asian wide character takes two columns, and a combining mark none.
TEST(TableTest, CountsColumnsOfTheTerminal) {
  Table table({{.title = "t"}, {.title = "u"}});
  table.AddRow({"µs", "1"});
  table.AddRow({"通义", "2"});
  table.AddRow({"e\u0301", "3"});
  EXPECT_EQ(table.Text(""), "t     u\nµs    1\n通义  2\ne\u0301     3\n");
}

// With the wide value a line has two more than 31 columns; without it, it has no more than these.
TEST(TableTest, AWideCellStandsBelowItsRow) {
  Table table({{.title = "figure"}, {.title = "value", .most = 6}, {.title = "from"}});
  table.AddRow({"peak", "989", "vendor"});
  table.AddRow({"tiles", "256x128 128x256 64x64", "us"});
  EXPECT_EQ(table.Text("", 31),
            "figure  value  from\n"
            "peak    989    vendor\n"
            "tiles          us\n"
            "    value 256x128 128x256 64x64\n");
  EXPECT_EQ(table.Text("", 40),
            "figure  value                  from\n"
            "peak    989                    vendor\n"
            "tiles   256x128 128x256 64x64  us\n");
  // The last column goes below too: 6 + 2 + 5 + 2 = 15 columns are before its 6.
  EXPECT_EQ(table.Text("", 20),
            "figure  value\n"
            "peak    989\n"
            "    vendor\n"
            "tiles\n"
            "    value 256x128\n"
            "    128x256 64x64;\n"
            "    from us\n");
}

Table WideTable() {
  Table table({{.title = "id"},
               {.title = "state"},
               {.title = "time", .align = Align::kRight},
               {.title = "plan"}});
  table.AddRow({"study-1", "succeeded", "74.2 s", "tp4 sp pp4 dp8 mb1 zero1, recompute none"});
  table.AddRow({"study-2", "", "-", "-"});
  return table;
}

TEST(TableTest, BreaksTheLastColumn) {
  // 2 + 7 + 2 + 9 + 2 + 6 + 2 = 30 columns are before it, and 66 - 30 = 36 are enough for it.
  EXPECT_EQ(WideTable().Text("  ", 66),
            "  id       state        time  plan\n"
            "  study-1  succeeded  74.2 s  tp4 sp pp4 dp8 mb1 zero1, recompute\n"
            "                              none\n"
            "  study-2                  -  -\n");
  EXPECT_EQ(WideTable().Text("  ", 60),
            "  id       state        time\n"
            "  study-1  succeeded  74.2 s\n"
            "      tp4 sp pp4 dp8 mb1 zero1, recompute none\n"
            "  study-2                  -\n"
            "      -\n");
}

// Beside the id there are 50 - 2 - 7 - 2 = 39 columns, room for one word of 20 in each of four
// lines. Below it there are 50 - 6 = 44, room for two in each of two lines.
TEST(TableTest, ALastColumnOfManyLinesStandsBelow) {
  Table table({{.title = "id"}, {.title = "plan"}});
  const std::string two = fmt::format("{} {}", std::string(20, 'a'), std::string(20, 'b'));
  table.AddRow({"study-1", fmt::format("{0} {0}", two)});
  EXPECT_EQ(table.Text("  ", 50), fmt::format("  id\n  study-1\n      {0}\n      {0}\n", two));
}

TEST(TableTest, WhatHasNoRoomStandsBelow) {
  // The first two columns end at 2 + 7 + 2 + 9 = 20, and the third at 28.
  EXPECT_EQ(WideTable().Text("  ", 27),
            "  id       state\n"
            "  study-1  succeeded\n"
            "      time 74.2 s;\n"
            "      plan tp4 sp pp4 dp8\n"
            "      mb1 zero1, recompute\n"
            "      none\n"
            "  study-2\n"
            "      time -; plan -\n");
}

TEST(WrappedTest, NumbersStayWithTheirUnits) {
  EXPECT_EQ(Wrapped("it fits with > 99 %: good", 17), "it fits with\n> 99 %: good\n");
  EXPECT_EQ(Wrapped("1: 74.2 s (58.1 .. 87.9) a step", 22), "1: 74.2 s\n(58.1 .. 87.9) a step\n");
  EXPECT_EQ(Wrapped("lacks 20.0 GiB.", 12), "lacks\n20.0 GiB.\n");
  // A word that looks like a unit is one only after a number.
  EXPECT_EQ(Wrapped("the word s", 9), "the word\ns\n");
}

TEST(WidthTest, OfTexts) {
  EXPECT_EQ(Width("昇腾 910C"), 9U);         // 2 x 2 + 5
  EXPECT_EQ(Width("\uFF21\uAC00"), 4U);      // a full-width letter, a syllable of Hangul
  EXPECT_EQ(Width("\U0001F680\uFE0F"), 2U);  // an emoji with its variation selector
  EXPECT_EQ(Width("\u0E01\u0E33"), 2U);      // Thai: a vowel that does not combine
  EXPECT_EQ(Width("\xff\xe4"), 2U);          // bytes that are no characters
}

TEST(ShortenedTest, CutsBetweenCharacters) {
  EXPECT_EQ(Shortened("searching", 9), "searching");
  EXPECT_EQ(Shortened("searching", 8), "searc...");
  EXPECT_EQ(Shortened("通义千问", 7), "通义...");
  EXPECT_EQ(Shortened("通义千问", 6), "通...");  // half of the second has no room
  EXPECT_EQ(Shortened("abcd", 2), "..");
}

TEST(ShortenedTest, CutsBetweenWords) {
  EXPECT_EQ(ShortenedToWords("only on nvidia-b200", 19), "only on nvidia-b200");
  EXPECT_EQ(ShortenedToWords("only on nvidia-b200", 18), "only on ...");
  EXPECT_EQ(ShortenedToWords("searching", 8), "searc...");
}

TEST(BarTest, ShowsEveryShareAboveZero) {
  EXPECT_EQ(Bar(0, 10), "");
  EXPECT_EQ(Bar(0.001, 10), "#");
  EXPECT_EQ(Bar(0.55, 10), "######");  // 5.5 rounds away from zero
  EXPECT_EQ(Bar(1.5, 10), "##########");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
