#pragma once

#include <string>
#include <vector>

#include "search_space/base/status.h"

namespace meshwright {

// Returns the fields that an error names.
inline std::vector<std::string> Fields(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : FieldViolations(status)) fields.push_back(violation.field);
  return fields;
}

}  // namespace meshwright
