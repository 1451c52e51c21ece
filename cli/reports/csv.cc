#include "cli/reports/csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <optional>

namespace meshwright {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool IsCell(const FieldDescriptor& field) {
  return field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
}

// Returns a field's value or, with an `index`, that element of a repeated field.
std::string ValueText(const Message& m, const FieldDescriptor& field, std::optional<int> index) {
  const Reflection& r = *m.GetReflection();
  const FieldDescriptor* const f = &field;
  if (f->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    return fmt::format("{}", index ? r.GetRepeatedInt32(m, f, *index) : r.GetInt32(m, f));
  }
  if (f->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    return fmt::format("{}", index ? r.GetRepeatedInt64(m, f, *index) : r.GetInt64(m, f));
  }
  if (f->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    return fmt::format("{}", index ? r.GetRepeatedDouble(m, f, *index) : r.GetDouble(m, f));
  }
  if (f->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    return (index ? r.GetRepeatedBool(m, f, *index) : r.GetBool(m, f)) ? "true" : "false";
  }
  return index ? r.GetRepeatedString(m, f, *index) : r.GetString(m, f);
}

std::string CellText(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (field.has_presence() && !reflection.HasField(message, &field)) return "";
  if (!field.is_repeated()) return ValueText(message, field, std::nullopt);
  std::vector<std::string> values;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    values.push_back(ValueText(message, field, i));
  }
  const bool is_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  return fmt::format("{}", fmt::join(values, is_text ? "; " : " "));
}

// Returns the cell in quotes if it needs them.
std::string Quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == cell.npos) return cell;
  std::string text = "\"";
  for (const char c : cell) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + "\"";
}

}  // namespace

void CsvTable::AddRow(const std::vector<std::string>& cells) {
  std::string_view separator;
  for (const std::string& cell : cells) {
    text_.append(separator).append(Quoted(cell));
    separator = ",";
  }
  text_ += "\r\n";
}

void AddTitles(const Descriptor& descriptor, std::string_view prefix,
               std::vector<std::string>& titles) {
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (IsCell(field)) titles.push_back(std::string(prefix) + field.name());
  }
}

void AddCells(const Message& message, std::vector<std::string>& cells) {
  const Descriptor& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (IsCell(field)) cells.push_back(CellText(message, field));
  }
}

}  // namespace meshwright
