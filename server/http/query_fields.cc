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

// Returns true if the field is a map of texts, whose entries are named by their keys:
// "filter.labels.team".
bool IsTextMap(const FieldDescriptor& field) {
  if (!field.is_map()) return false;
  const Descriptor& entry = *field.message_type();
  return entry.map_key()->cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
         entry.map_value()->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
}

// Returns the fields that a query can name, with dotted names for those of a nested message.
std::vector<std::string> KnownNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (IsTextMap(field)) names.push_back(field.name() + ".KEY");
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

// The meaning of a name: a field of a message or, with a key, an entry of a map.
struct Named {
  Message* owner = nullptr;
  const FieldDescriptor* field = nullptr;  // null: there is no such field
  std::string key = {};
};

// Walks a dotted name down to the message that has the field.
Named Find(std::string_view name, Message* message) {
  while (true) {
    const std::size_t dot = name.find('.');
    const FieldDescriptor* const field =
        message->GetDescriptor()->FindFieldByName(std::string(name.substr(0, dot)));
    const bool has_rest = dot != std::string_view::npos;
    if (field == nullptr) return {};
    if (IsTextMap(*field) && has_rest) {
      return {.owner = message, .field = field, .key = std::string(name.substr(dot + 1))};
    }
    if (field->is_repeated()) return {};
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_message != has_rest) return {};
    if (!is_message) return {.owner = message, .field = field};
    message = message->GetReflection()->MutableMessage(message, field);
    name.remove_prefix(dot + 1);
  }
}

// Sets what was found; returns what is wrong with the value, or an empty text.
std::string Set(const Named& named, const std::string& value) {
  if (!IsTextMap(*named.field)) return Set(*named.owner, *named.field, value);
  Message& entry = *named.owner->GetReflection()->AddMessage(named.owner, named.field);
  const google::protobuf::Reflection& reflection = *entry.GetReflection();
  reflection.SetString(&entry, named.field->message_type()->map_key(), named.key);
  reflection.SetString(&entry, named.field->message_type()->map_value(), value);
  return "";
}

}  // namespace

std::vector<FieldViolation> FillFromQuery(const NamedValues& query, Message& request) {
  std::vector<FieldViolation> violations;
  std::set<std::string> seen;
  for (const auto& [name, value] : query) {
    const Named named = Find(name, &request);
    if (named.field == nullptr) {
      violations.push_back(
          {.field = name,
           .description = fmt::format("unknown; known: {}",
                                      fmt::join(KnownNames(*request.GetDescriptor()), ", "))});
    } else if (!seen.insert(name).second) {
      violations.push_back({.field = name, .description = "stated twice"});
    } else if (std::string mistake = Set(named, value); !mistake.empty()) {
      violations.push_back({.field = name, .description = std::move(mistake)});
    }
  }
  return violations;
}

}  // namespace meshwright
