#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_map>
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

// Appends the number as JSON. JSON has no NaN or infinity; the words are those of protobuf's
// mapping.
void AppendDouble(double value, std::string& text) {
  if (std::isnan(value)) {
    text += "\"NaN\"";
  } else if (std::isinf(value)) {
    text += value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else {
    fmt::format_to(std::back_inserter(text), "{}", value);
  }
}

// Returns true if a list or map has the option of meshwright/v1/options.proto, which is found by
// its name, because not every schema has it.
bool IsPrintedIfStated(const FieldDescriptor& field) {
  if (!field.is_repeated()) return false;
  const Message& options = field.options();
  std::vector<const FieldDescriptor*> stated;
  options.GetReflection()->ListFields(options, &stated);
  return std::ranges::any_of(stated, [](const FieldDescriptor* option) {
    return option->full_name() == "meshwright.v1.printed_if_stated";
  });
}

// A field with what is the same in all messages. A page of a list prints its fields thousands of
// times.
struct PrintedField {
  const FieldDescriptor* field;
  std::string key;  // quoted, with its colon
  bool is_printed_if_stated;
};

std::vector<PrintedField> PrintedFieldsOf(const Descriptor& descriptor) {
  std::vector<PrintedField> fields;
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    fields.push_back({.field = &field,
                      .key = QuotedJson(field.name()) + ": ",
                      .is_printed_if_stated = IsPrintedIfStated(field)});
  }
  return fields;
}

class Printer {
 public:
  explicit Printer(const JsonStyle& style) : style_(style) {}

  void Print(const Message& message) {
    Open('{');
    const Reflection& reflection = *message.GetReflection();
    for (const auto& [its_field, key, is_printed_if_stated] : FieldsOf(*message.GetDescriptor())) {
      const FieldDescriptor& field = *its_field;
      if (field.has_presence() && !reflection.HasField(message, &field)) continue;
      if (is_printed_if_stated && reflection.FieldSize(message, &field) == 0) continue;
      Separate();
      text_ += key;
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
  const std::vector<PrintedField>& FieldsOf(const Descriptor& descriptor) {
    std::vector<PrintedField>& fields = fields_[&descriptor];
    if (fields.empty()) fields = PrintedFieldsOf(descriptor);
    return fields;
  }

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
        AppendDouble(index ? r.GetRepeatedDouble(m, f, *index) : r.GetDouble(m, f), text_);
        return;
      case FieldDescriptor::CPPTYPE_BOOL:
        text_ += (index ? r.GetRepeatedBool(m, f, *index) : r.GetBool(m, f)) ? "true" : "false";
        return;
      case FieldDescriptor::CPPTYPE_STRING:
        text_ += QuotedJson(index ? r.GetRepeatedStringReference(m, f, *index, &scratch_)
                                  : r.GetStringReference(m, f, &scratch_));
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
  std::string scratch_;  // for texts that a message does not hold as a std::string
  // The addresses of nodes of this map stay while others are added.
  std::unordered_map<const Descriptor*, std::vector<PrintedField>> fields_;
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
