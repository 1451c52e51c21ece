#include "cli/plots/bar_plot.h"

#include <fmt/format.h>

#include <algorithm>

namespace meshwright {
namespace {

constexpr int kWidth = 960;
constexpr int kMargin = 16;
constexpr int kTextColumn = 150;  // for the values, right of the bars
constexpr int kBarsWidth = kWidth - 2 * kMargin - kTextColumn;
constexpr int kTitleHeight = 44;
constexpr int kRowHeight = 46;
constexpr int kBarHeight = 16;

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        // XML allows no control characters but these.
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\t' || c == '\n') out += c;
    }
  }
  return out;
}

// Returns the place of a value on the axis, which begins at 0.
double At(double value, double greatest) {
  return greatest > 0 ? kMargin + kBarsWidth * value / greatest : kMargin;
}

std::string BarText(const PlotBar& bar, int top, double greatest) {
  const double end = At(bar.value, greatest);
  const int bar_top = top + 22;
  const int middle = bar_top + kBarHeight / 2;
  std::string text = fmt::format(
      "<text x=\"{}\" y=\"{}\">{}</text>\n"
      "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"#3b78b5\"/>\n",
      kMargin, top + 14, Escaped(bar.label), kMargin, bar_top, end - kMargin, kBarHeight);
  if (bar.high > bar.low) {
    const double low = At(bar.low, greatest);
    const double high = At(bar.high, greatest);
    text += fmt::format(
        "<path d=\"M{0:.1f} {2}H{1:.1f}M{0:.1f} {3}v8M{1:.1f} {3}v8\" stroke=\"#222\" "
        "stroke-width=\"1.5\" fill=\"none\"/>\n",
        low, high, middle, middle - 4);
  }
  return text + fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>\n",
                            std::max(end, At(bar.high, greatest)) + 8, middle + 5,
                            Escaped(bar.text));
}

}  // namespace

std::string BarPlot(const std::string& title, const std::vector<PlotBar>& bars) {
  double greatest = 0;
  for (const PlotBar& bar : bars) greatest = std::max({greatest, bar.value, bar.high});
  const int height = kTitleHeight + kRowHeight * static_cast<int>(bars.size()) + kMargin;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
      "<text x=\"{2}\" y=\"28\" font-size=\"17\">{3}</text>\n",
      kWidth, height, kMargin, Escaped(title));
  int top = kTitleHeight;
  for (const PlotBar& bar : bars) {
    text += BarText(bar, top, greatest);
    top += kRowHeight;
  }
  return text + "</svg>\n";
}

}  // namespace meshwright
