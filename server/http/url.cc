#include "server/http/url.h"

#include <charconv>
#include <cstddef>
#include <system_error>

namespace meshwright {
namespace {

std::optional<char> ByteOf(std::string_view digits) {
  unsigned char byte = 0;
  if (digits.size() != 2) return std::nullopt;
  const auto read = std::from_chars(digits.data(), digits.data() + 2, byte, 16);
  if (read.ec != std::errc() || read.ptr != digits.data() + 2) return std::nullopt;
  return static_cast<char>(byte);
}

// Calls `part` with each of the parts between the separators.
template <typename Part>
bool ForEachPart(std::string_view text, char separator, const Part& part) {
  while (true) {
    const std::size_t end = text.find(separator);
    if (!part(text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::optional<std::string> DecodePercent(std::string_view text, bool has_plus) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '%') {
      const std::optional<char> byte = ByteOf(text.substr(at + 1, 2));
      if (!byte.has_value()) return std::nullopt;
      decoded += *byte;
      at += 2;
    } else {
      decoded += has_plus && text[at] == '+' ? ' ' : text[at];
    }
  }
  return decoded;
}

std::optional<NamedValues> DecodeQuery(std::string_view query) {
  NamedValues values;
  if (query.empty()) return values;
  const bool is_good = ForEachPart(query, '&', [&](std::string_view part) {
    const std::size_t mark = part.find('=');
    auto name = DecodePercent(part.substr(0, mark), true);
    auto value = DecodePercent(mark == std::string_view::npos ? "" : part.substr(mark + 1), true);
    if (!name.has_value() || !value.has_value()) return false;
    if (!part.empty()) values.emplace_back(*std::move(name), *std::move(value));
    return true;
  });
  return is_good ? std::optional(values) : std::nullopt;
}

std::optional<std::vector<std::string>> DecodePath(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  std::vector<std::string> parts;
  const bool is_good = ForEachPart(path.substr(1), '/', [&](std::string_view part) {
    auto decoded = DecodePercent(part, false);
    if (!decoded.has_value()) return false;
    parts.push_back(*std::move(decoded));
    return true;
  });
  return is_good ? std::optional(parts) : std::nullopt;
}

}  // namespace meshwright
