#include "cli/plots/bar_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::Not;

// The axis has 778 points from 0 to the greatest end of a range, 4 s: 1 s is 194.5 of them.
TEST(BarPlotTest, BarsAndRangesAreToScale) {
  const std::string plot = BarPlot("steps", {{"a", 2, 1, 4, "2 s"}, {"b", 1, 1, 1, "1 s"}});
  EXPECT_THAT(plot, HasSubstr("width=\"389.0\" height=\"16\""));
  EXPECT_THAT(plot, HasSubstr("width=\"194.5\" height=\"16\""));
  EXPECT_THAT(plot, HasSubstr("M210.5 74H794.0"));
  EXPECT_THAT(plot, HasSubstr(">2 s</text>"));
}

TEST(BarPlotTest, TextsCannotBreakTheFile) {
  const std::string plot = BarPlot("a < b & c", {{"<script>\x1b", 0, 0, 0, "0"}});
  EXPECT_THAT(plot, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(plot, HasSubstr("&lt;script&gt;</text>"));
  EXPECT_THAT(plot, Not(HasSubstr("\x1b")));
  EXPECT_THAT(BarPlot("none", {}), HasSubstr("</svg>"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
