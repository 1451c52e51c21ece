#include "cli/reports/table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>

#include "cli/reports/text_width.h"
#include "cli/reports/wrap.h"

namespace meshwright {
namespace {

// The last column is not broken into lines that are shorter.
constexpr std::size_t kLeastLast = 36;
constexpr std::size_t kGap = 2;  // spaces between columns

// Returns the first cells of a row, padded to the widths that there are.
std::string Line(const std::vector<std::string>& cells, const std::vector<Column>& columns,
                 const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string padding(widths[i] - Width(cells[i]), ' ');
    if (i > 0) line += "  ";
    line += columns[i].align == Align::kRight ? padding + cells[i] : cells[i] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// Returns the width of the first `count` columns with the spaces after each.
std::size_t WidthOf(const std::vector<std::size_t>& widths, std::size_t count) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += widths[i] + kGap;
  return sum;
}

// Returns `line` with `cell` after it, broken at the line's end and indented by `before`.
std::string WithBroken(std::string line, std::string_view cell, std::size_t before, int columns) {
  if (cell.empty()) return line;
  const std::string lead(before, ' ');
  line.pop_back();
  line.append(before - Width(line), ' ');
  line += Wrapped(cell, columns, lead, lead).substr(before);
  return line;
}

std::ptrdiff_t LineCount(std::string_view cell, int columns, std::size_t before) {
  const std::string lead(before, ' ');
  return std::ranges::count(Wrapped(cell, columns, lead, lead), '\n');
}

// Returns true if the last cells take no more lines beside the other columns, from column `beside`
// on, than below them, from column `below` on.
bool AreShortBeside(const std::vector<std::vector<std::string>>& rows, std::size_t beside,
                    std::size_t below, int columns) {
  std::ptrdiff_t extra = 0;
  for (const auto& row : rows) {
    if (row.back().empty()) continue;
    extra += LineCount(row.back(), columns, beside) - 1 - LineCount(row.back(), columns, below);
  }
  return extra <= 0;
}

}  // namespace

std::vector<std::size_t> Table::Widths(bool is_narrow) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = Width(columns_[i].title);
    for (const auto& row : rows_) {
      if (!is_narrow || !IsWide(row, i)) width = std::max(width, Width(row[i]));
    }
    widths.push_back(width);
  }
  return widths;
}

bool Table::IsWide(const std::vector<std::string>& row, std::size_t i) const {
  return columns_[i].most > 0 && Width(row[i]) > columns_[i].most;
}

std::vector<std::string> Table::WithoutWide(std::vector<std::string> row) const {
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (IsWide(row, i)) row[i].clear();
  }
  return row;
}

std::string Table::Below(const std::vector<std::string>& row, std::size_t beside,
                         std::string_view indent, int columns) const {
  const std::string inner = std::string(indent) + kIndent + kIndent;
  std::vector<std::size_t> cells;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!row[i].empty() && (i >= beside || IsWide(row, i))) cells.push_back(i);
  }
  if (cells.empty()) return "";
  if (beside + 1 == row.size() && cells.front() == beside) {
    return Wrapped(row[beside], columns, inner, inner);
  }
  std::vector<std::string> items;
  items.reserve(cells.size());
  for (const std::size_t i : cells) {
    items.push_back(columns_[i].title.empty() ? row[i] : columns_[i].title + " " + row[i]);
  }
  return WrappedItems(items, ";", columns, inner);
}

std::string Table::Text(std::string_view indent, int columns) const {
  std::vector<std::size_t> widths = Widths(/*is_narrow=*/false);
  const auto most = static_cast<std::size_t>(columns);
  const auto end = [&] { return indent.size() + WidthOf(widths, widths.size()) - kGap; };
  const bool is_narrow = columns != 0 && end() > most;
  if (is_narrow) widths = Widths(is_narrow);
  const bool fits = !is_narrow || end() <= most;
  const std::size_t before = indent.size() + WidthOf(widths, widths.size() - 1);  // the last column
  const std::size_t below = indent.size() + 2 * std::string_view(kIndent).size();
  const bool breaks_last =
      !fits && before + kLeastLast <= most && AreShortBeside(rows_, before, below, columns);
  if (!fits) widths.pop_back();
  // Columns without room beside the first one go below it.
  while (!fits && widths.size() > 1 && end() > most) widths.pop_back();

  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  const auto line_of = [&](const std::vector<std::string>& cells) {
    std::string line = std::string(indent) + Line(cells, columns_, widths);
    return breaks_last ? WithBroken(std::move(line), cells.back(), before, columns) : line;
  };
  std::string text;
  const auto has_title = [](const Column& column) { return !column.title.empty(); };
  if (std::ranges::any_of(columns_, has_title)) text += line_of(titles);
  const std::size_t beside = breaks_last ? columns_.size() : widths.size();
  for (const auto& row : rows_) {
    text +=
        is_narrow ? line_of(WithoutWide(row)) + Below(row, beside, indent, columns) : line_of(row);
  }
  return text;
}

std::string Bar(double share, int width) {
  if (!(share > 0)) return "";
  const double length = std::round(std::min(share, 1.0) * width);
  return std::string(std::max<std::size_t>(1, static_cast<std::size_t>(length)), '#');
}

}  // namespace meshwright
