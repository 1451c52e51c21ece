#include "recorder/page_token.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

constexpr int kDefaultPageSize = 50;
constexpr std::size_t kChecksumDigits = 8;

// FNV-1a, 32 bits (RFC draft-eastlake-fnv, section 5). It guards against damage, not against
// intent.
std::uint32_t Checksum(std::string_view list, std::string_view body) {
  std::uint32_t hash = 0x811C9DC5;
  const auto add = [&hash](char c) { hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U; };
  for (const char c : list) add(c);
  add('\0');
  for (const char c : body) add(c);
  return hash;
}

std::optional<std::string> FromHex(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    unsigned char byte = 0;
    const char* end = digits.data() + i + 2;
    const auto parsed = std::from_chars(digits.data() + i, end, byte, 16);
    if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::optional<PageKey> Decode(std::string_view list, std::string_view token) {
  if (token.size() < kChecksumDigits) return std::nullopt;
  const auto body = FromHex(token.substr(kChecksumDigits));
  if (!body.has_value()) return std::nullopt;
  if (token.substr(0, kChecksumDigits) != fmt::format("{:08x}", Checksum(list, *body))) {
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
  std::string token = fmt::format("{:08x}", Checksum(list, body));
  for (const char c : body) token += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return token;
}

absl::StatusOr<PageKey> DecodePageToken(std::string_view list, std::string_view token) {
  auto key = Decode(list, token);
  if (key.has_value()) return *std::move(key);
  return WithReason(
      absl::InvalidArgumentError(
          fmt::format("page_token = '{}'; must be the next_page_token of an earlier answer to the "
                      "same list",
                      token)),
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
