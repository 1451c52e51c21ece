#pragma once

#include <cstddef>
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

// The number of wrong fields that a status lists. It counts the others, so that an input with a
// hundred thousand mistakes has an answer that a caller can receive and a person can read.
inline constexpr std::size_t kMaxListedFields = 20;

// Returns how many fields are wrong: those in the list, and those that its last entry counts.
std::size_t CountFields(const std::vector<FieldViolation>& violations);

// Returns the first violations of the list. If there are more than `count`, a last one without a
// field counts the others: "280 more invalid fields".
std::vector<FieldViolation> FirstFields(const std::vector<FieldViolation>& violations,
                                        std::size_t count);

// Returns an INVALID_ARGUMENT status that lists the first kMaxListedFields violations, and counts
// the others.
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
