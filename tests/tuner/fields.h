#pragma once

#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/estimate.h"

namespace meshwright {

// Returns the fields that an error names.
inline std::vector<std::string> Fields(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : FieldViolations(status)) fields.push_back(violation.field);
  return fields;
}

// Returns the fields that were not stated.
inline std::vector<std::string> DefaultedFields(const std::vector<AppliedDefault>& defaults) {
  std::vector<std::string> fields;
  fields.reserve(defaults.size());
  for (const AppliedDefault& applied : defaults) fields.push_back(applied.field);
  return fields;
}

}  // namespace meshwright
