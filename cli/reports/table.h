#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshwright {

enum class Align { kLeft, kRight };

struct Column {
  std::string title = {};
  Align align = Align::kLeft;
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
  // If a line would be longer than `columns`, the last column is broken at its spaces, or has lines
  // of its own below the others; 0: lines may be of any length.
  [[nodiscard]] std::string Text(std::string_view indent, int columns = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Draws `share` of `width` characters as "#####", at least one for any share above 0.
std::string Bar(double share, int width);

}  // namespace meshwright
