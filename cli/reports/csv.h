#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Descriptor;
class Message;
}  // namespace google::protobuf

namespace meshwright {

// Rows of cells below a row of titles, as RFC 4180 has them.
class CsvTable {
 public:
  explicit CsvTable(const std::vector<std::string>& titles) { AddRow(titles); }

  // Adds a row with as many cells as there are titles.
  void AddRow(const std::vector<std::string>& cells);

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Appends the names of a message's fields with `prefix` before each. Fields that are messages or
// maps are left out, because they are no cells.
void AddTitles(const google::protobuf::Descriptor& descriptor, std::string_view prefix,
               std::vector<std::string>& titles);

// Appends the values of the same fields, as in JSON; lists with a space between numbers ("20 20")
// and "; " between texts; an absent field is empty.
void AddCells(const google::protobuf::Message& message, std::vector<std::string>& cells);

}  // namespace meshwright
