#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/limits.h"

namespace meshwright {

// The keys under which configurations state one thing, the usual one first.
using Keys = std::initializer_list<const char*>;

// Reads keys of one configuration, remembers which it has read, and collects the mistakes in them.
// A wrong value reads as absent, so that a reader goes on and finds the next one too. Null is the
// same as absent.
class ConfigReader {
 public:
  // `path` is the path of the configuration in the input ("model").
  ConfigReader(const nlohmann::json& config, std::string_view path)
      : config_(config), check_(path) {}

  [[nodiscard]] bool Has(const char* key) const;
  // Returns the first of the keys that has a value; nullptr if none has.
  [[nodiscard]] const char* Find(Keys keys) const;

  // Reads a whole number from 1 on that must be stated; 0 if it is not. A list of equal numbers
  // reads as that number, here and below.
  int Size(Keys keys);
  // Reads a whole number from 0 on.
  std::optional<int> Integer(Keys keys);
  std::optional<double> Number(Keys keys);
  std::optional<bool> Flag(Keys keys);
  std::optional<std::string> Text(Keys keys);
  // Reads a list of whole numbers.
  std::optional<std::vector<int>> Integers(const char* key);
  std::optional<std::vector<std::string>> Texts(const char* key);
  // Reads an object with a reader of its own, whose mistakes and read keys become this one's.
  void Object(const char* key, const std::function<void(ConfigReader&)>& read);

  // Marks a key as read, whatever its value.
  void Ignore(const char* key) { read_.insert(key); }
  void Reject(const char* key, std::string_view demand);
  void Add(std::string_view field, std::string description);

  [[nodiscard]] const nlohmann::json& config() const { return config_; }
  [[nodiscard]] const std::set<std::string, std::less<>>& read() const { return read_; }
  std::vector<FieldViolation> violations() && { return std::move(check_).violations(); }

 private:
  std::optional<int> Number(Keys keys, std::int64_t low);
  const nlohmann::json* Value(Keys keys, const char** key);
  std::optional<int> Whole(const nlohmann::json& value, const char* key, std::int64_t low);

  const nlohmann::json& config_;
  LimitChecker check_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace meshwright
