#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "server/auth/callers.h"

namespace meshwright {

// Returns the role that a method of the API needs at least; nullopt for a method that is not known.
std::optional<Role> NeededRole(std::string_view method);

// Returns true for a method that changes something for others than its caller, and so is audited. A
// kept answer of Recommend is a study, which says itself when it was made.
bool IsAudited(std::string_view method);

// Returns UNAUTHENTICATED if nobody has shown who they are, and PERMISSION_DENIED with reason
// ROLE_TOO_LOW if the caller's role does not suffice.
absl::Status CheckRole(const std::optional<KnownCaller>& caller, Role needed,
                       std::string_view method);

}  // namespace meshwright
