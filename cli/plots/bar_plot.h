#pragma once

#include <string>
#include <vector>

namespace meshwright {

// A bar of a plot, with the range within which its value is likely to be.
struct PlotBar {
  std::string label = {};
  double value = 0;
  double low = 0;  // the same as `value` if there is no range
  double high = 0;
  std::string text = {};  // the value as people read it
};

// Returns an SVG image with a horizontal bar for each entry, from the first one down, and a line
// for its range. Labels stand above their bars, so they may be long. The same input gives the same
// bytes.
std::string BarPlot(const std::string& title, const std::vector<PlotBar>& bars);

}  // namespace meshwright
