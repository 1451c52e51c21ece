#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/status.h"

namespace meshwright {

// Command-line flags in the making, with every field that the framework has no flag for.
class FlagList {
 public:
  void Add(std::string_view flag);
  void Add(std::string_view flag, int value);
  void Add(std::string_view flag, double value);  // shortest form that reads back equal
  void Add(std::string_view flag, std::string_view value);

  // `field` is a path such as "plan.schedule"; `description` says what was asked and what exists.
  void Refuse(std::string_view field, std::string description);

  // One flag a line, continued with a backslash, as a shell takes them; or all that was refused, as
  // INVALID_ARGUMENT with reason NOT_EXPRESSIBLE.
  absl::StatusOr<std::string> Text() &&;

 private:
  std::vector<std::string> lines_;
  std::vector<FieldViolation> refused_;
};

}  // namespace meshwright
