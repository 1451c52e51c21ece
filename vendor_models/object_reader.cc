#include "vendor_models/object_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "search_space/base/shown_value.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

}  // namespace

ObjectReader::ObjectReader(const Json& object, std::string path,
                           std::vector<FieldViolation>& violations)
    : object_(object), path_(std::move(path)), violations_(violations) {}

void ObjectReader::AllowOnly(std::span<const std::string_view> keys) {
  for (const auto& item : object_.items()) {
    if (std::find(keys.begin(), keys.end(), item.key()) != keys.end()) continue;
    Reject(item.key(), fmt::format("unknown key; must be one of {}", fmt::join(keys, ", ")));
  }
}

bool ObjectReader::Has(std::string_view key) const { return object_.contains(key); }

const Json* ObjectReader::Find(std::string_view key) {
  const auto found = object_.find(key);
  if (found != object_.end()) return &*found;
  Reject(key, "missing");
  return nullptr;
}

std::string ObjectReader::Text(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return "";
  if (value->is_string() && !value->get_ref<const std::string&>().empty()) {
    return value->get<std::string>();
  }
  Reject(key, fmt::format("{}; must be a text that is not empty", ShownValue(*value)));
  return "";
}

std::optional<bool> ObjectReader::Flag(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Reject(key, fmt::format("{}; must be true or false", ShownValue(*value)));
  return std::nullopt;
}

std::optional<double> ObjectReader::Number(std::string_view key, NumberLimits limits) {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    Reject(key, fmt::format("{}; must be a number", ShownValue(*value)));
    return std::nullopt;
  }
  const double number = value->get<double>();
  if (number < limits.low || number > limits.high) {
    Reject(key, fmt::format("{}; must be from {:g} to {:g}", ShownValue(*value), limits.low,
                            limits.high));
    return std::nullopt;
  }
  if (limits.is_whole && number != std::floor(number)) {
    Reject(key, fmt::format("{}; must be a whole number", ShownValue(*value)));
    return std::nullopt;
  }
  return number;
}

std::optional<ObjectReader::Shown> ObjectReader::FindShown(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  return Shown{.text = value->is_string() ? value->get<std::string>() : "",
               .as_json = ShownValue(*value)};
}

void ObjectReader::Reject(std::string_view key, std::string description) {
  violations_.push_back({.field = path_ + std::string(key), .description = std::move(description)});
}

}  // namespace meshwright
