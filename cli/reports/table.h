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

// Rows of text under titles, as wide as their widest cell, two spaces between columns; no trailing
// spaces. Widths count code points, because units such as "±" are one column wide.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Every line starts with `indent`. A table without titles has no title line.
  [[nodiscard]] std::string Text(std::string_view indent) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "#####": `share` of `width` characters, at least one for any share above 0.
std::string Bar(double share, int width);

}  // namespace meshwright
