#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "search_space/spec/framework_profile.h"

namespace meshwright {

// Sets one fact of a profile by the key of its file ("host_per_launch_seconds"); the table of keys
// is in profile_facts.cc. INVALID_ARGUMENT names the key and what it allows.
absl::Status SetFact(std::string_view key, const std::string& text, FrameworkProfile& profile);

// The limits of a fact that is a number; nullopt for other facts.
struct FactRange {
  double lowest = 0;
  double highest = 0;
};
std::optional<FactRange> RangeOf(std::string_view key);

}  // namespace meshwright
