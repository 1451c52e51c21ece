#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search_space/base/status.h"

namespace meshwright {

// Collects the fields of one input that are outside their limits, so that Validate names them all
// at once. Field names are relative to the prefix ("cluster") that the checker is made with.
class LimitChecker {
 public:
  explicit LimitChecker(std::string_view prefix) : prefix_(prefix) {}

  // Requires low <= value <= high.
  void Range(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high);
  // Requires a finite value with low <= value.
  void AtLeast(std::string_view field, double value, double low);
  // Requires a finite value with 0 < value.
  void Positive(std::string_view field, double value);
  void Missing(std::string_view field);
  // Adds a violation. `description` is as in FieldViolation; an empty field names the whole input.
  void Add(std::string_view field, std::string description);

  [[nodiscard]] bool found_none() const { return violations_.empty(); }
  std::vector<FieldViolation> violations() && { return std::move(violations_); }

 private:
  std::string prefix_;
  std::vector<FieldViolation> violations_;
};

}  // namespace meshwright
