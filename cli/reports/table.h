#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshwright {

enum class Align { kLeft, kRight };

struct Column {
  std::string title = {};
  Align align = Align::kLeft;
  // If lines are too long, cells that are wider stand below their row with their title, so that
  // they widen the column for no other row. 0: none does.
  std::size_t most = 0;
};

// The indent of what stands below a heading.
inline constexpr char kIndent[] = "  ";

// Rows of text under titles: columns are as wide as their widest cell, with two spaces between them
// and none at the end of a line.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Adds a row with as many cells as there are columns.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Returns the table with `indent` before every line. A table without titles has no title line.
  // If a line would be longer than `columns`, the last column is broken at its spaces. If too
  // little is left for that, the columns for which there is no room stand below each row, with
  // their titles if they are several. 0: lines may be of any length.
  [[nodiscard]] std::string Text(std::string_view indent, int columns = 0) const;

 private:
  // Returns the widths of the columns. If the table is narrow, wide cells do not count.
  [[nodiscard]] std::vector<std::size_t> Widths(bool is_narrow) const;

  [[nodiscard]] bool IsWide(const std::vector<std::string>& row, std::size_t i) const;

  [[nodiscard]] std::vector<std::string> WithoutWide(std::vector<std::string> row) const;

  // Returns the lines below a row for its wide cells and the cells from `beside` on.
  [[nodiscard]] std::string Below(const std::vector<std::string>& row, std::size_t beside,
                                  std::string_view indent, int columns) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Draws `share` of `width` characters as "#####", at least one for any share above 0.
std::string Bar(double share, int width);

}  // namespace meshwright
