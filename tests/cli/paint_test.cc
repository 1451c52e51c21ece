#include "cli/reports/paint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Returns the linear light of one channel of sRGB (WCAG 2.2, "relative luminance").
double LinearLight(int level) {
  const double share = level / 255.0;
  return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
}

// Returns the relative luminance of a colour of the 6 x 6 x 6 cube of the palette of 256.
double Luminance(int color) {
  constexpr int kLevels[] = {0, 95, 135, 175, 215, 255};
  const int cell = color - 16;
  return 0.2126 * LinearLight(kLevels[cell / 36]) + 0.7152 * LinearLight(kLevels[cell / 6 % 6]) +
         0.0722 * LinearLight(kLevels[cell % 6]);
}

// A contrast of 3 is what WCAG 2.2 asks for bold text; black has a luminance of 0, white of 1.
TEST(PaintTest, ColoursCanBeReadOnBlackAndOnWhite) {
  constexpr std::string_view kLead = "\x1b[1;38;5;";
  for (const Paint paint : {Paint::kGood, Paint::kBad, Paint::kWarning}) {
    const std::string text = Painted("x", paint, true);
    ASSERT_THAT(text, testing::StartsWith(kLead));
    ASSERT_THAT(text, testing::EndsWith("mx\x1b[0m"));
    const int color = std::stoi(text.substr(kLead.size()));
    ASSERT_THAT(color, testing::AllOf(testing::Ge(16), testing::Le(231)));
    EXPECT_GE((Luminance(color) + 0.05) / 0.05, 3) << color;
    EXPECT_GE(1.05 / (Luminance(color) + 0.05), 3) << color;
  }
}

TEST(PaintTest, HeadingsHaveTheTerminalsOwnColour) {
  EXPECT_EQ(Painted("x", Paint::kHeading, true), "\x1b[1mx\x1b[0m");
  EXPECT_EQ(Painted("x", Paint::kGood, false), "x");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
