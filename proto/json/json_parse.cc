#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "proto/json/closest_word.h"
#include "proto/json/json.h"
#include "proto/json/json_tree.h"
#include "proto/json/text_fields.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

using Scalar = std::variant<bool, std::int32_t, std::int64_t, double, std::string>;

// Returns the value as text that is short enough for a message.
std::string Given(const JsonValue& json) {
  constexpr std::size_t kMaxLength = 60;
  struct Printer {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(double value) const { return fmt::format("{}", value); }
    std::string operator()(const std::string& value) const {
      if (value.size() <= kMaxLength) return QuotedJson(value);
      return fmt::format("a string of {} bytes", value.size());
    }
    std::string operator()(const JsonArray&) const { return "an array"; }
    std::string operator()(const JsonObject&) const { return "an object"; }
  };
  return std::visit(Printer(), json.value);
}

// Returns the whole number given as 2048, as 2048.0 or, if `may_be_text`, as "2048". Returns
// nullopt if it is not one.
std::optional<std::int64_t> WholeNumber(const JsonValue& json, bool may_be_text) {
  if (const auto* number = std::get_if<std::int64_t>(&json.value)) return *number;
  if (const auto* number = std::get_if<double>(&json.value)) {
    // 2^63 is the first double above int64; its negative is int64's least.
    constexpr double kLimit = 9223372036854775808.0;
    if (std::trunc(*number) != *number || *number < -kLimit || *number >= kLimit) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(*number);
  }
  const auto* text = std::get_if<std::string>(&json.value);
  if (!may_be_text || text == nullptr || text->empty()) return std::nullopt;
  std::int64_t number = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

class Filler {
 public:
  void Fill(const JsonObject& object, const std::string& path, Message& message) {
    const Descriptor& descriptor = *message.GetDescriptor();
    std::set<std::string_view> seen;
    for (const auto& [key, json] : object) {
      const std::string member_path = Join(path, key);
      if (!seen.insert(key).second) {
        Add(member_path, "given twice; must be given once");
        continue;
      }
      const FieldDescriptor* const field = descriptor.FindFieldByName(key);
      if (field == nullptr) {
        Add(member_path, "unknown field; " + Hint(descriptor, key));
      } else if (!std::holds_alternative<std::nullptr_t>(json.value)) {
        // A null means that the field is not stated, as in protobuf's mapping.
        FillField(json, member_path, *field, message);
      }
    }
  }

  std::vector<FieldViolation> violations() && { return std::move(violations_); }

 private:
  // Appends a key to a path. Keys come from the user, so they are escaped and cannot break a
  // message's lines.
  static std::string Join(const std::string& path, const std::string& key) {
    const std::string quoted = QuotedJson(key);
    const std::string_view name = std::string_view(quoted).substr(1, quoted.size() - 2);
    return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
  }

  static std::string Hint(const Descriptor& descriptor, std::string_view key) {
    std::vector<std::string_view> names;
    names.reserve(static_cast<std::size_t>(descriptor.field_count()));
    for (int i = 0; i < descriptor.field_count(); ++i) names.push_back(descriptor.field(i)->name());
    const std::optional<std::string_view> closest = ClosestWord(key, names);
    if (closest.has_value()) return fmt::format("did you mean \"{}\"?", *closest);
    return fmt::format("must be one of {}", fmt::join(names, ", "));
  }

  void FillField(const JsonValue& json, const std::string& path, const FieldDescriptor& field,
                 Message& message) {
    if (field.is_map()) {
      FillMap(json, path, field, message);
    } else if (field.is_repeated()) {
      const auto* const array = std::get_if<JsonArray>(&json.value);
      if (array == nullptr) {
        Add(path, fmt::format("{}; must be an array", Given(json)));
        return;
      }
      for (std::size_t i = 0; i < array->size(); ++i) {
        FillOne((*array)[i], fmt::format("{}[{}]", path, i), field, message);
      }
    } else {
      FillOne(json, path, field, message);
    }
  }

  void FillMap(const JsonValue& json, const std::string& path, const FieldDescriptor& field,
               Message& message) {
    const JsonObject* const object = Object(json, path);
    if (object == nullptr) return;
    const FieldDescriptor& value_field = *field.message_type()->map_value();
    std::set<std::string_view> seen;
    for (const auto& [key, element] : *object) {
      const std::string member_path = Join(path, key);
      if (!seen.insert(key).second) {
        Add(member_path, "given twice; must be given once");
        continue;
      }
      const FieldDescriptor& key_field = *field.message_type()->map_key();
      if (auto mistake = FieldTextMistake(key_field, key)) {
        Add(member_path, *std::move(mistake));
        continue;
      }
      Message& entry = *message.GetReflection()->AddMessage(&message, &field);
      Store(Scalar(key), key_field, entry);
      FillOne(element, member_path, value_field, entry);
    }
  }

  // Fills a field, or adds one element of a repeated field.
  void FillOne(const JsonValue& json, const std::string& path, const FieldDescriptor& field,
               Message& message) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const JsonObject* const object = Object(json, path);
      if (object == nullptr) return;
      const Reflection& reflection = *message.GetReflection();
      Fill(*object, path,
           field.is_repeated() ? *reflection.AddMessage(&message, &field)
                               : *reflection.MutableMessage(&message, &field));
    } else if (const std::optional<Scalar> value = ReadScalar(json, path, field)) {
      Store(*value, field, message);
    }
  }

  const JsonObject* Object(const JsonValue& json, const std::string& path) {
    const auto* const object = std::get_if<JsonObject>(&json.value);
    if (object == nullptr) Add(path, fmt::format("{}; must be an object", Given(json)));
    return object;
  }

  std::optional<Scalar> ReadScalar(const JsonValue& json, const std::string& path,
                                   const FieldDescriptor& field) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return ReadInt32(json, path);
      case FieldDescriptor::CPPTYPE_INT64:
        if (const auto number = WholeNumber(json, true)) return *number;
        Add(path, fmt::format("{}; must be a whole number", Given(json)));
        return std::nullopt;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        if (const auto* number = std::get_if<double>(&json.value)) return *number;
        if (const auto* number = std::get_if<std::int64_t>(&json.value)) {
          return static_cast<double>(*number);
        }
        Add(path, fmt::format("{}; must be a number", Given(json)));
        return std::nullopt;
      case FieldDescriptor::CPPTYPE_BOOL:
        if (const auto* value = std::get_if<bool>(&json.value)) return *value;
        Add(path, fmt::format("{}; must be true or false", Given(json)));
        return std::nullopt;
      case FieldDescriptor::CPPTYPE_STRING:
        return ReadText(json, path, field);
      case FieldDescriptor::CPPTYPE_UINT32:
      case FieldDescriptor::CPPTYPE_UINT64:
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_ENUM:
      case FieldDescriptor::CPPTYPE_MESSAGE:
        break;  // not in the schema, which a test checks
    }
    std::abort();
  }

  std::optional<Scalar> ReadText(const JsonValue& json, const std::string& path,
                                 const FieldDescriptor& field) {
    const auto* const text = std::get_if<std::string>(&json.value);
    if (text == nullptr) {
      Add(path, fmt::format("{}; must be a string", Given(json)));
      return std::nullopt;
    }
    if (auto mistake = FieldTextMistake(field, *text)) {
      Add(path, *std::move(mistake));
      return std::nullopt;
    }
    return *text;
  }

  std::optional<Scalar> ReadInt32(const JsonValue& json, const std::string& path) {
    using Limits = std::numeric_limits<std::int32_t>;
    const std::optional<std::int64_t> number = WholeNumber(json, false);
    if (number.has_value() && *number >= Limits::min() && *number <= Limits::max()) {
      return static_cast<std::int32_t>(*number);
    }
    const auto* const big = std::get_if<double>(&json.value);
    const bool is_whole = number.has_value() || (big != nullptr && std::trunc(*big) == *big);
    Add(path, is_whole ? fmt::format("{}; must be between {} and {}", Given(json), Limits::min(),
                                     Limits::max())
                       : fmt::format("{}; must be a whole number", Given(json)));
    return std::nullopt;
  }

  static void Store(const Scalar& scalar, const FieldDescriptor& field, Message& message) {
    const Reflection& r = *message.GetReflection();
    Message* const m = &message;
    const FieldDescriptor* const f = &field;
    const bool add = field.is_repeated();
    struct Setter {
      const Reflection& r;
      Message* m;
      const FieldDescriptor* f;
      bool add;
      void operator()(bool v) const { add ? r.AddBool(m, f, v) : r.SetBool(m, f, v); }
      void operator()(std::int32_t v) const { add ? r.AddInt32(m, f, v) : r.SetInt32(m, f, v); }
      void operator()(std::int64_t v) const { add ? r.AddInt64(m, f, v) : r.SetInt64(m, f, v); }
      void operator()(double v) const { add ? r.AddDouble(m, f, v) : r.SetDouble(m, f, v); }
      void operator()(const std::string& v) const {
        add ? r.AddString(m, f, v) : r.SetString(m, f, v);
      }
    };
    std::visit(Setter{r, m, f, add}, scalar);
  }

  void Add(std::string path, std::string description) {
    violations_.push_back({.field = std::move(path), .description = std::move(description)});
  }

  std::vector<FieldViolation> violations_;
};

}  // namespace

std::vector<FieldViolation> ParseJson(std::string_view text, std::string_view prefix,
                                      Message& message) {
  const std::string path(prefix);
  const absl::StatusOr<JsonValue> json = ReadJsonTree(text);
  if (!json.ok()) {
    return {{.field = path,
             .description = fmt::format("not JSON; {}", std::string(json.status().message()))}};
  }
  const auto* const object = std::get_if<JsonObject>(&json->value);
  if (object == nullptr) {
    return {{.field = path, .description = Given(*json) + "; must be an object"}};
  }
  Filler filler;
  filler.Fill(*object, path, message);
  return std::move(filler).violations();
}

}  // namespace meshwright
