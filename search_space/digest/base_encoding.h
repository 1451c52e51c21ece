#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace meshwright {

// Encodes bytes as text and decodes them (RFC 4648). Each value has exactly one text: decoding
// returns nullopt for any text that encoding does not produce, such as one with capital hexadecimal
// digits, white space or missing padding.

// Base 16, in lower-case digits.
std::string ToHex(std::string_view bytes);
std::optional<std::string> FromHex(std::string_view text);

// Base 64, with padding. OpenSSL does the work.
std::string ToBase64(std::string_view bytes);
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace meshwright
