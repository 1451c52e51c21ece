#include "cli/reports/table.h"

#include <algorithm>
#include <cmath>

namespace meshwright {
namespace {

std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // not a continuation byte of UTF-8
  }));
}

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

std::string Table::Text(std::string_view indent) const {
  std::vector<std::string> titles;
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    std::size_t width = Width(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, Width(row[i]));
    widths.push_back(width);
  }
  std::string text;
  const bool has_titles = std::ranges::any_of(titles, [](const auto& t) { return !t.empty(); });
  if (has_titles) text.append(indent).append(Line(titles, columns_, widths));
  for (const auto& row : rows_) text.append(indent).append(Line(row, columns_, widths));
  return text;
}

std::string Bar(double share, int width) {
  if (!(share > 0)) return "";
  const double length = std::round(std::min(share, 1.0) * width);
  return std::string(std::max<std::size_t>(1, static_cast<std::size_t>(length)), '#');
}

}  // namespace meshwright
