#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace meshwright {

// The place after the last row of a page, as opaque text. Bound to its list, so that a token of
// another list or another study is refused, and check-summed, so that a damaged one is too.
struct PageKey {
  std::int64_t number = 0;
  std::string text = {};
  bool operator==(const PageKey&) const = default;
};

std::string EncodePageToken(std::string_view list, const PageKey& key);

// INVALID_ARGUMENT with reason INVALID_PAGE_TOKEN for anything that EncodePageToken did not make
// for this list.
absl::StatusOr<PageKey> DecodePageToken(std::string_view list, std::string_view token);

inline constexpr int kMaxPageSize = 1000;

// The size of a page: 0 stands for 50, more than kMaxPageSize is cut to it, and a negative one is
// INVALID_ARGUMENT. `field` names it in the message.
absl::StatusOr<int> PageSize(int asked, std::string_view field);

}  // namespace meshwright
