#pragma once

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The limits of a number in a file.
struct NumberLimits {
  double low;
  double high;
  bool is_whole = false;
};

// Reads one object of a JSON file and adds its mistakes to `violations`, under `path`. A wrong key
// reads as absent, so that the next wrong key is found too. The object and the list must outlive
// the reader.
class ObjectReader {
 public:
  ObjectReader(const nlohmann::json& object, std::string path,
               std::vector<FieldViolation>& violations);

  void AllowOnly(std::span<const std::string_view> keys);
  [[nodiscard]] bool Has(std::string_view key) const;
  // Returns the value of a key, or null; adds a violation if the key is missing.
  const nlohmann::json* Find(std::string_view key);
  // Returns a text that must not be empty.
  std::string Text(std::string_view key);
  std::optional<bool> Flag(std::string_view key);
  std::optional<double> Number(std::string_view key, NumberLimits limits);
  template <typename Enum>
  std::optional<Enum> Choice(std::string_view key);

  void Reject(std::string_view key, std::string description);

 private:
  struct Shown {
    std::string text = {};  // empty if the value is not text
    std::string as_json = {};
  };
  std::optional<Shown> FindShown(std::string_view key);

  const nlohmann::json& object_;
  std::string path_;
  std::vector<FieldViolation>& violations_;
};

template <typename Enum>
std::optional<Enum> ObjectReader::Choice(std::string_view key) {
  const std::optional<Shown> shown = FindShown(key);
  if (!shown.has_value()) return std::nullopt;
  const auto parsed = ParseChoice<Enum>(shown->text);
  if (!parsed.has_value()) {
    Reject(key, fmt::format("{}; must be one of {}", shown->as_json, AllowedWords<Enum>()));
  }
  return parsed;
}

}  // namespace meshwright
