#include "recorder/page_token.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "search_space/digest/base_encoding.h"
#include "search_space/digest/fnv.h"

namespace meshwright {
namespace {

constexpr int kDefaultPageSize = 50;
constexpr std::size_t kChecksumDigits = 8;

// Returns a checksum that detects damage but does not prevent forgery.
std::string Checksum(std::string_view list, std::string_view body) {
  return fmt::format("{:08x}", Fnv1a32(fmt::format("{}{}{}", list, '\0', body)));
}

std::optional<PageKey> Decode(std::string_view list, std::string_view token) {
  if (token.size() < kChecksumDigits) return std::nullopt;
  const auto body = FromHex(token.substr(kChecksumDigits));
  if (!body.has_value()) return std::nullopt;
  if (token.substr(0, kChecksumDigits) != Checksum(list, *body)) {
    return std::nullopt;
  }
  PageKey key;
  const char* end = body->data() + body->size();
  const auto parsed = std::from_chars(body->data(), end, key.number);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != ' ') return std::nullopt;
  key.text.assign(parsed.ptr + 1, end);
  return key;
}

}  // namespace

std::string EncodePageToken(std::string_view list, const PageKey& key) {
  const std::string body = fmt::format("{} {}", key.number, key.text);
  return Checksum(list, body) + ToHex(body);
}

absl::StatusOr<PageKey> DecodePageToken(std::string_view list, std::string_view token) {
  auto key = Decode(list, token);
  if (key.has_value()) return *std::move(key);
  return WithReason(
      absl::InvalidArgumentError(
          fmt::format("page_token = '{}'; must be the next_page_token of an earlier answer to the "
                      "same list",
                      CleanText(token, {}))),
      "INVALID_PAGE_TOKEN");
}

absl::StatusOr<int> PageSize(int asked, std::string_view field) {
  if (asked < 0) {
    return absl::InvalidArgumentError(fmt::format("{} = {}; must be >= 0", field, asked));
  }
  if (asked == 0) return kDefaultPageSize;
  return asked < kMaxPageSize ? asked : kMaxPageSize;
}

}  // namespace meshwright
