#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/status.h"

namespace meshwright {

// Collects command-line flags and every field that the framework has no flag for.
class FlagList {
 public:
  void Add(std::string_view flag);
  void Add(std::string_view flag, int value);
  void Add(std::string_view flag, double value);  // shortest form that parses to the same value
  void Add(std::string_view flag, std::string_view value);

  // Records a field that has no flag. `field` is a path such as "plan.schedule"; `description` says
  // what was requested and what exists.
  void Refuse(std::string_view field, std::string description);

  // Returns one flag per line, continued with a backslash as in a shell. If any field was refused,
  // returns INVALID_ARGUMENT with reason NOT_EXPRESSIBLE and all refused fields.
  absl::StatusOr<std::string> Text() &&;

 private:
  std::vector<std::string> lines_;
  std::vector<FieldViolation> refused_;
};

}  // namespace meshwright
