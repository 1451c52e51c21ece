#include "search_space/import/config_reader.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "search_space/base/shown_value.h"

namespace meshwright {
namespace {

// Larger than every size of a real model, and small enough that four times it still fits in int.
constexpr std::int64_t kMaxValue = 100'000'000;

}  // namespace

bool ConfigReader::Has(const char* key) const {
  const auto found = config_.find(key);
  return found != config_.end() && !found->is_null();
}

const char* ConfigReader::Find(Keys keys) const {
  for (const char* key : keys) {
    if (Has(key)) return key;
  }
  return nullptr;
}

const nlohmann::json* ConfigReader::Value(Keys keys, const char** key) {
  for (const char* name : keys) read_.insert(name);
  *key = Find(keys);
  return *key == nullptr ? nullptr : &config_[*key];
}

std::optional<int> ConfigReader::Whole(const nlohmann::json& value, const char* key,
                                       std::int64_t low) {
  if (!value.is_number_integer()) {
    Reject(key, "must be an integer");
  } else if (value.get<double>() < static_cast<double>(low)) {  // exact enough, for uint64 too
    Reject(key, fmt::format("must be >= {}", low));
  } else if (value.get<double>() > static_cast<double>(kMaxValue)) {
    Reject(key, fmt::format("must be <= {}", kMaxValue));
  } else {
    return value.get<int>();
  }
  return std::nullopt;
}

int ConfigReader::Size(Keys keys) {
  if (Find(keys) != nullptr) return Number(keys, 1).value_or(0);
  check_.Missing(*keys.begin());
  return 0;
}

std::optional<int> ConfigReader::Integer(Keys keys) { return Number(keys, 0); }

std::optional<int> ConfigReader::Number(Keys keys, std::int64_t low) {
  const char* key = nullptr;
  const nlohmann::json* value = Value(keys, &key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) return Whole(*value, key, low);
  for (const nlohmann::json& element : *value) {
    if (element != value->front()) {
      Reject(key, "must be one number, or equal numbers");
      return std::nullopt;
    }
  }
  if (value->empty()) {
    Reject(key, "must be an integer");
    return std::nullopt;
  }
  return Whole(value->front(), key, low);
}

std::optional<double> ConfigReader::Number(Keys keys) {
  const char* key = nullptr;
  const nlohmann::json* value = Value(keys, &key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  Reject(key, "must be a number");
  return std::nullopt;
}

std::optional<bool> ConfigReader::Flag(Keys keys) {
  const char* key = nullptr;
  const nlohmann::json* value = Value(keys, &key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Reject(key, "must be true or false");
  return std::nullopt;
}

std::optional<std::string> ConfigReader::Text(Keys keys) {
  const char* key = nullptr;
  const nlohmann::json* value = Value(keys, &key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Reject(key, "must be a string");
  return std::nullopt;
}

std::optional<std::vector<int>> ConfigReader::Integers(const char* key) {
  read_.insert(key);
  if (!Has(key)) return std::nullopt;
  std::vector<int> numbers;
  if (config_[key].is_array()) {
    for (const nlohmann::json& element : config_[key]) {
      const auto number = Whole(element, key, 0);
      if (!number.has_value()) return std::nullopt;
      numbers.push_back(*number);
    }
    return numbers;
  }
  Reject(key, "must be a list of integers");
  return std::nullopt;
}

std::optional<std::vector<std::string>> ConfigReader::Texts(const char* key) {
  read_.insert(key);
  if (!Has(key)) return std::nullopt;
  std::vector<std::string> texts;
  if (config_[key].is_array()) {
    for (const nlohmann::json& element : config_[key]) {
      if (!element.is_string()) break;
      texts.push_back(element.get<std::string>());
    }
    if (texts.size() == config_[key].size()) return texts;
  }
  Reject(key, "must be a list of strings");
  return std::nullopt;
}

void ConfigReader::Object(const char* key, const std::function<void(ConfigReader&)>& read) {
  read_.insert(key);
  if (!Has(key)) return;
  if (!config_[key].is_object()) return Reject(key, "must be an object");
  ConfigReader inner(config_[key], key);
  read(inner);
  for (FieldViolation& violation : std::move(inner).violations()) {
    check_.Add(violation.field, std::move(violation.description));
  }
}

void ConfigReader::Reject(const char* key, std::string_view demand) {
  const std::string value = config_.contains(key) ? ShownValue(config_[key]) : "missing";
  check_.Add(key, fmt::format("{}; {}", value, demand));
}

void ConfigReader::Add(std::string_view field, std::string description) {
  check_.Add(field, std::move(description));
}

}  // namespace meshwright
