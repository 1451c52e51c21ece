#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwright {

// One wrong field of an input: its path as the user wrote it (`cluster.pools[0].node_count`) and
// what was given and what is allowed (`0; must be >= 1`).
struct FieldViolation {
  std::string field = {};
  std::string description = {};
  bool operator==(const FieldViolation&) const = default;
};

// Returns an INVALID_ARGUMENT status that lists violations: 20, then a count (listed_fields.h).
absl::Status InvalidFields(const std::vector<FieldViolation>& violations);

// Returns the violations that InvalidFields attached; empty for any other status.
std::vector<FieldViolation> FieldViolations(const absl::Status& status);

// Attaches a stable, upper-case reason (`UNKNOWN_CHIP`, `NO_FEASIBLE_PLAN`) that programs match on.
absl::Status WithReason(absl::Status status, std::string_view reason);

// Returns the reason that WithReason attached, or else the name of the canonical code
// (`INVALID_ARGUMENT`).
std::string Reason(const absl::Status& status);

#define MESHWRIGHT_CONCAT_INNER(a, b) a##b
#define MESHWRIGHT_CONCAT(a, b) MESHWRIGHT_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                                 \
  do {                                                              \
    if (absl::Status mw_status_ = (expression); !mw_status_.ok()) { \
      return mw_status_;                                            \
    }                                                               \
  } while (false)

#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_INNER(MESHWRIGHT_CONCAT(mw_or_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                   \
  if (!temporary.ok()) return temporary.status();                  \
  declaration = *std::move(temporary)

}  // namespace meshwright
