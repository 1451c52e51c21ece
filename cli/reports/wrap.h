#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace meshwright {

// The columns that a text takes: code points, because units such as "±" are one column wide.
std::size_t Width(std::string_view text);

// Returns the text in lines of at most `columns` columns, broken at its spaces but not before "%";
// a longer word has a line of its own. `first` begins the first line and `rest` the others. Every
// line ends with a line break.
std::string Wrapped(std::string_view text, int columns, std::string_view first = "",
                    std::string_view rest = "");

}  // namespace meshwright
