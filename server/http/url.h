#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshwright {

// Names and values, in their order.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

// Replaces %XX by its byte, and '+' by a space if `has_plus`. Returns nullopt for a '%' that no two
// hexadecimal digits follow.
std::optional<std::string> DecodePercent(std::string_view text, bool has_plus);

// Splits "a=1&b=x%20y" into decoded names and values. Returns nullopt for a bad encoding.
std::optional<NamedValues> DecodeQuery(std::string_view query);

// Splits "/v1/studies/a%2Fb" into decoded parts: v1, studies, a/b. Empty parts are kept. Returns
// nullopt for a bad encoding, or if the path does not begin with '/'.
std::optional<std::vector<std::string>> DecodePath(std::string_view path);

}  // namespace meshwright
