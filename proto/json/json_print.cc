#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "proto/json/json.h"
#include "proto/json/json_tree.h"

namespace meshwright {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Returns the number as JSON. JSON has no NaN or infinity; the words are those of protobuf's
// mapping.
std::string DoubleText(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return fmt::format("{}", value);
}

// Returns true if a list or map is empty and has the option of meshwright/v1/options.proto, which
// is found by its name, because not every schema has it.
bool IsOmitted(const Message& message, const FieldDescriptor& field) {
  if (!field.is_repeated() || message.GetReflection()->FieldSize(message, &field) > 0) return false;
  const Message& options = field.options();
  std::vector<const FieldDescriptor*> stated;
  options.GetReflection()->ListFields(options, &stated);
  return std::ranges::any_of(stated, [](const FieldDescriptor* option) {
    return option->full_name() == "meshwright.v1.printed_if_stated";
  });
}

class Printer {
 public:
  explicit Printer(const JsonStyle& style) : style_(style) {}

  void Print(const Message& message) {
    Open('{');
    const Descriptor& descriptor = *message.GetDescriptor();
    for (int i = 0; i < descriptor.field_count(); ++i) {
      const FieldDescriptor& field = *descriptor.field(i);
      if (field.has_presence() && !message.GetReflection()->HasField(message, &field)) continue;
      if (IsOmitted(message, field)) continue;
      Key(field.name());
      if (field.is_map()) {
        PrintMap(message, field);
      } else if (field.is_repeated()) {
        PrintArray(message, field);
      } else {
        PrintOne(message, field, std::nullopt);
      }
    }
    Close('}');
  }

  std::string text() && { return std::move(text_); }

 private:
  void PrintMap(const Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    const FieldDescriptor& key_field = *field.message_type()->map_key();
    std::vector<std::pair<std::string, const Message*>> entries;
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
      entries.emplace_back(entry.GetReflection()->GetString(entry, &key_field), &entry);
    }
    std::sort(entries.begin(), entries.end());
    Open('{');
    for (const auto& [key, entry] : entries) {
      Key(key);
      PrintOne(*entry, *field.message_type()->map_value(), std::nullopt);
    }
    Close('}');
  }

  // Prints a repeated field. Numbers share a line even if everything else has lines of its own:
  // they are mostly lists with an element per stage.
  void PrintArray(const Message& message, const FieldDescriptor& field) {
    const bool has_lines = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE ||
                           field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    const JsonStyle outer = std::exchange(style_, {.multiline = style_.multiline && has_lines});
    Open('[');
    for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
      Separate();
      PrintOne(message, field, i);
    }
    Close(']');
    style_ = outer;
  }

  // Prints a field's value or, with an `index`, that element of a repeated field.
  void PrintOne(const Message& message, const FieldDescriptor& field, std::optional<int> index) {
    const Reflection& r = *message.GetReflection();
    const Message& m = message;
    const FieldDescriptor* const f = &field;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        text_ += std::to_string(index ? r.GetRepeatedInt32(m, f, *index) : r.GetInt32(m, f));
        return;
      case FieldDescriptor::CPPTYPE_INT64:
        text_ += std::to_string(index ? r.GetRepeatedInt64(m, f, *index) : r.GetInt64(m, f));
        return;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        text_ += DoubleText(index ? r.GetRepeatedDouble(m, f, *index) : r.GetDouble(m, f));
        return;
      case FieldDescriptor::CPPTYPE_BOOL:
        text_ += (index ? r.GetRepeatedBool(m, f, *index) : r.GetBool(m, f)) ? "true" : "false";
        return;
      case FieldDescriptor::CPPTYPE_STRING:
        text_ += QuotedJson(index ? r.GetRepeatedString(m, f, *index) : r.GetString(m, f));
        return;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Print(index ? r.GetRepeatedMessage(m, f, *index) : r.GetMessage(m, f));
        return;
      case FieldDescriptor::CPPTYPE_UINT32:
      case FieldDescriptor::CPPTYPE_UINT64:
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_ENUM:
        break;  // not in the schema, which a test checks
    }
    std::abort();
  }

  void Open(char bracket) {
    text_ += bracket;
    ++depth_;
    is_empty_ = true;
  }
  void Close(char bracket) {
    --depth_;
    if (!is_empty_) BreakLine();
    text_ += bracket;
    is_empty_ = false;
  }
  void Separate() {
    if (!is_empty_) text_ += style_.multiline ? "," : ", ";
    BreakLine();
    is_empty_ = false;
  }
  void Key(std::string_view key) {
    Separate();
    text_ += QuotedJson(key);
    text_ += ": ";
  }
  void BreakLine() {
    if (!style_.multiline) return;
    text_ += '\n';
    text_.append(2 * depth_, ' ');
  }

  JsonStyle style_;
  std::string text_;
  std::size_t depth_ = 0;
  bool is_empty_ = true;  // the innermost open bracket has no element yet
};

}  // namespace

std::string PrintJson(const Message& message, const JsonStyle& style) {
  Printer printer(style);
  printer.Print(message);
  return std::move(printer).text();
}

}  // namespace meshwright
