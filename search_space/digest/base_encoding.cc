#include "search_space/digest/base_encoding.h"

#include <openssl/evp.h>

#include <charconv>
#include <cstddef>

namespace meshwright {
namespace {

// OpenSSL counts bytes as unsigned char.
const unsigned char* Unsigned(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

std::string ToHex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits[value >> 4U];
    text += kDigits[value & 15U];
  }
  return text;
}

std::optional<std::string> FromHex(std::string_view text) {
  std::string bytes(text.size() / 2, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) return std::nullopt;
    bytes[i] = static_cast<char>(value);
  }
  if (ToHex(bytes) != text) return std::nullopt;  // an odd number of digits, or capitals
  return bytes;
}

std::string ToBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // with a final zero
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), Unsigned(bytes),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::optional<std::string> FromBase64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), Unsigned(text),
                                   static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  // OpenSSL counts the zero bytes that '=' stands for.
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  bytes.resize(static_cast<std::size_t>(size) - padding);
  if (ToBase64(bytes) != text) return std::nullopt;  // white space or stray bits
  return bytes;
}

}  // namespace meshwright
