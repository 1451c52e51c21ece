#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "search_space/base/status.h"

namespace meshwright {

// Collects every field that a framework cannot express.
class Refusals {
 public:
  // `field` is a path such as "plan.schedule"; `description` says what was requested and what
  // exists. A field that was refused before keeps its first description.
  void Refuse(std::string_view field, std::string description);

  // Returns INVALID_ARGUMENT with reason NOT_EXPRESSIBLE and all refused fields, or OK if there are
  // none.
  [[nodiscard]] absl::Status Status() const;

 private:
  std::vector<FieldViolation> refused_;
};

}  // namespace meshwright
