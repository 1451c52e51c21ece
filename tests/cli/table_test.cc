#include "cli/reports/table.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

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

TEST(TableTest, CountsCodePoints) {
  Table table({{.title = "t"}, {.title = "u"}});
  table.AddRow({"µs", "1"});
  table.AddRow({"ms", "2"});
  EXPECT_EQ(table.Text(""), "t   u\nµs  1\nms  2\n");
}

TEST(BarTest, ShowsEveryShareAboveZero) {
  EXPECT_EQ(Bar(0, 10), "");
  EXPECT_EQ(Bar(0.001, 10), "#");
  EXPECT_EQ(Bar(0.55, 10), "######");  // 5.5 rounds away from zero
  EXPECT_EQ(Bar(1.5, 10), "##########");
}

}  // namespace
}  // namespace meshwright
