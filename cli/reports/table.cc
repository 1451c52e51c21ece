#include "cli/reports/table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/reports/wrap.h"

namespace meshwright {
namespace {

// The last column is not broken into lines that are shorter.
constexpr std::size_t kLeastLast = 36;

std::string Line(const std::vector<std::string>& cells, const std::vector<Column>& columns,
                 const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - Width(cells[i]), ' ');
    if (i > 0) line += "  ";
    line += columns[i].align == Align::kRight ? padding + cells[i] : cells[i] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::string Table::Text(std::string_view indent, int columns) const {
  std::vector<std::string> titles;
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    std::size_t width = Width(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, Width(row[i]));
    widths.push_back(width);
  }
  const std::size_t last = widths.size() - 1;
  std::size_t before = indent.size();
  for (std::size_t i = 0; i < last; ++i) before += widths[i] + 2;
  const auto most = static_cast<std::size_t>(columns);
  const bool fits = columns == 0 || before + widths[last] <= most;
  const bool is_below = !fits && before + kLeastLast > most;
  const std::string rest =
      is_below ? std::string(indent) + kIndent + kIndent : std::string(before, ' ');
  if (is_below) titles[last].clear();

  std::string text;
  const auto add = [&](std::vector<std::string> cells, bool is_title) {
    std::string broken;
    if (!fits && !is_title) {
      const std::string words = std::exchange(cells[last], "");
      broken = Wrapped(words, columns, rest, rest);
    }
    std::string line = std::string(indent) + Line(cells, columns_, widths);
    if (!broken.empty() && !is_below) {
      // The first line of the last column continues the line of the others.
      line.pop_back();
      line.resize(line.size() + before - Width(line), ' ');
      broken.erase(0, before);
    }
    text += line + broken;
  };
  if (std::ranges::any_of(titles, [](const auto& t) { return !t.empty(); })) add(titles, true);
  for (const auto& row : rows_) add(row, false);
  return text;
}

std::string Bar(double share, int width) {
  if (!(share > 0)) return "";
  const double length = std::round(std::min(share, 1.0) * width);
  return std::string(std::max<std::size_t>(1, static_cast<std::size_t>(length)), '#');
}

}  // namespace meshwright
