#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace meshwright {

// Returns the columns that a terminal gives a text of UTF-8: two for an East Asian wide character,
// none for a mark that combines with the character before it, one for any other.
std::size_t Width(std::string_view text);

// Returns the text if it has at most `columns` columns, or else its beginning and "...".
std::string Shortened(std::string_view text, std::size_t columns);

// Returns the same without a word that is cut: "only on ...", not "only on nvidia...".
std::string ShortenedToWords(std::string_view text, std::size_t columns);

}  // namespace meshwright
