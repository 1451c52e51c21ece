#pragma once

#include <cstdint>
#include <optional>

namespace meshwright {

// The part of the machine that this process takes; absent: not known.
struct OwnUse {
  std::optional<std::int64_t> resident_bytes = {};
  std::optional<int> open_files = {};
};

OwnUse ReadOwnUse();

}  // namespace meshwright
