#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/http/url.h"

namespace meshwright {

// Returns the fields that a path states if it has the form of an address, whose parts in braces are
// fields: "/v1/studies/{study_id}:watch".
std::optional<NamedValues> MatchAddress(std::string_view address,
                                        std::span<const std::string> path);

// Returns INVALID_ARGUMENT for a path or a query that cannot be decoded.
absl::Status BadEncoding();

// Returns NOT_FOUND with reason UNKNOWN_ADDRESS.
absl::Status UnknownAddress(std::string_view path);

}  // namespace meshwright
