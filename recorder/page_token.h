#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace meshwright {

// The position after the last row of a page, encoded as opaque text. A token is bound to its list,
// so that another list or study refuses it, and has a checksum, so that a damaged token is refused
// too.
struct PageKey {
  std::int64_t number = 0;
  std::string text = {};
  bool operator==(const PageKey&) const = default;
};

std::string EncodePageToken(std::string_view list, const PageKey& key);

// Decodes a token. Returns INVALID_ARGUMENT with reason INVALID_PAGE_TOKEN for anything that
// EncodePageToken did not return for this list.
absl::StatusOr<PageKey> DecodePageToken(std::string_view list, std::string_view token);

inline constexpr int kMaxPageSize = 1000;

// Returns the size of a page: 50 for 0, and at most kMaxPageSize. A negative size is
// INVALID_ARGUMENT. `field` names it in the message.
absl::StatusOr<int> PageSize(int asked, std::string_view field);

}  // namespace meshwright
