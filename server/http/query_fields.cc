#include "server/http/query_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

namespace meshwright {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

template <typename Number>
std::optional<Number> ReadNumber(std::string_view text) {
  Number number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

// Returns the fields that a query can name, with dotted names for those of a nested message.
std::vector<std::string> KnownNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated()) continue;
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      names.push_back(field.name());
      continue;
    }
    for (const std::string& name : KnownNames(*field.message_type())) {
      names.push_back(field.name() + "." + name);
    }
  }
  return names;
}

// Sets one field; returns what is wrong with the value, or an empty text.
std::string Set(Message& message, const FieldDescriptor& field, const std::string& value) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const auto set = [&](const auto& number, auto setter, const char* what) -> std::string {
    if (!number.has_value()) return fmt::format("'{}'; must be {}", value, what);
    (reflection.*setter)(&message, &field, *number);
    return "";
  };
  using google::protobuf::Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(&message, &field, value);
      return "";
    case FieldDescriptor::CPPTYPE_INT32:
      return set(ReadNumber<std::int32_t>(value), &Reflection::SetInt32, "a whole number");
    case FieldDescriptor::CPPTYPE_INT64:
      return set(ReadNumber<std::int64_t>(value), &Reflection::SetInt64, "a whole number");
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return set(ReadNumber<double>(value), &Reflection::SetDouble, "a number");
    case FieldDescriptor::CPPTYPE_BOOL:
      return set(value == "true"    ? std::optional(true)
                 : value == "false" ? std::optional(false)
                                    : std::nullopt,
                 &Reflection::SetBool, "true or false");
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_ENUM:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;  // the schema has no such fields, and messages are reached by dotted names
  }
  return "cannot be stated in an address";
}

// Walks a dotted name down to the message that has the field; null if there is none.
const FieldDescriptor* Find(std::string_view name, Message*& message) {
  while (true) {
    const std::size_t dot = name.find('.');
    const FieldDescriptor* const field =
        message->GetDescriptor()->FindFieldByName(std::string(name.substr(0, dot)));
    if (field == nullptr || field->is_repeated()) return nullptr;
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_message != (dot != std::string_view::npos)) return nullptr;
    if (!is_message) return field;
    message = message->GetReflection()->MutableMessage(message, field);
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

std::vector<FieldViolation> FillFromQuery(const NamedValues& query, Message& request) {
  std::vector<FieldViolation> violations;
  std::set<std::string> seen;
  for (const auto& [name, value] : query) {
    Message* owner = &request;
    const FieldDescriptor* const field = Find(name, owner);
    if (field == nullptr) {
      violations.push_back(
          {.field = name,
           .description = fmt::format("unknown; known: {}",
                                      fmt::join(KnownNames(*request.GetDescriptor()), ", "))});
    } else if (!seen.insert(name).second) {
      violations.push_back({.field = name, .description = "stated twice"});
    } else if (std::string mistake = Set(*owner, *field, value); !mistake.empty()) {
      violations.push_back({.field = name, .description = std::move(mistake)});
    }
  }
  return violations;
}

}  // namespace meshwright
