#include "server/convert/message_reader.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/reflection.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace meshwright {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

const FieldDescriptor& MessageReader::Field(std::string_view name) const {
  const FieldDescriptor* const field =
      message_->GetDescriptor()->FindFieldByName(std::string(name));
  if (field == nullptr) std::abort();  // a misspelt name in the source
  return *field;
}

const FieldDescriptor* MessageReader::Stated(std::string_view name) const {
  const FieldDescriptor& field = Field(name);
  return message_->GetReflection()->HasField(*message_, &field) ? &field : nullptr;
}

std::optional<int> MessageReader::Int(std::string_view field) const {
  const FieldDescriptor* const stated = Stated(field);
  if (stated == nullptr) return std::nullopt;
  return message_->GetReflection()->GetInt32(*message_, stated);
}

std::optional<std::int64_t> MessageReader::Int64(std::string_view field) const {
  const FieldDescriptor* const stated = Stated(field);
  if (stated == nullptr) return std::nullopt;
  return message_->GetReflection()->GetInt64(*message_, stated);
}

std::optional<double> MessageReader::Double(std::string_view field) const {
  const FieldDescriptor* const stated = Stated(field);
  if (stated == nullptr) return std::nullopt;
  return message_->GetReflection()->GetDouble(*message_, stated);
}

std::optional<bool> MessageReader::Bool(std::string_view field) const {
  const FieldDescriptor* const stated = Stated(field);
  if (stated == nullptr) return std::nullopt;
  return message_->GetReflection()->GetBool(*message_, stated);
}

std::optional<std::string> MessageReader::Text(std::string_view field) const {
  const FieldDescriptor* const stated = Stated(field);
  if (stated == nullptr) return std::nullopt;
  return message_->GetReflection()->GetString(*message_, stated);
}

std::optional<MessageReader> MessageReader::Child(std::string_view field) const {
  const FieldDescriptor* const stated = Stated(field);
  if (stated == nullptr) return std::nullopt;
  return MessageReader(message_->GetReflection()->GetMessage(*message_, stated), At(field),
                       *found_);
}

std::vector<int> MessageReader::Ints(std::string_view field) const {
  const auto& values =
      message_->GetReflection()->GetRepeatedFieldRef<std::int32_t>(*message_, &Field(field));
  return {values.begin(), values.end()};
}

std::vector<std::string> MessageReader::Texts(std::string_view field) const {
  const auto& values =
      message_->GetReflection()->GetRepeatedFieldRef<std::string>(*message_, &Field(field));
  return {values.begin(), values.end()};
}

std::vector<MessageReader> MessageReader::Children(std::string_view field) const {
  const Reflection& reflection = *message_->GetReflection();
  const FieldDescriptor& descriptor = Field(field);
  const int count = reflection.FieldSize(*message_, &descriptor);
  std::vector<MessageReader> children;
  children.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    children.emplace_back(reflection.GetRepeatedMessage(*message_, &descriptor, i),
                          fmt::format("{}[{}]", At(field), i), *found_);
  }
  return children;
}

std::string MessageReader::At(std::string_view field) const {
  return fmt::format("{}{}{}", path_, path_.empty() || field.empty() ? "" : ".", field);
}

void MessageReader::Add(std::string_view field, std::string description) const {
  found_->push_back({.field = At(field), .description = std::move(description)});
}

void MessageReader::RequirePositive(std::string_view field, double value) const {
  if (std::isfinite(value) && value > 0) return;
  Add(field, fmt::format("{}; must be > 0", value));
}

bool MessageReader::HasMistakes(std::string_view field) const {
  const std::string path = At(field);
  return std::ranges::any_of(*found_, [&](const FieldViolation& violation) {
    const std::string& other = violation.field;
    if (path.empty() || other == path) return true;
    return other.starts_with(path) && (other[path.size()] == '.' || other[path.size()] == '[');
  });
}

void MessageReader::AddWordMistake(std::string_view field, const std::string& word,
                                   const std::string& allowed) const {
  Add(field, fmt::format("\"{}\"; must be one of {}", word, allowed));
}

}  // namespace meshwright
