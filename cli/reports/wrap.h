#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// Returns the text in lines of at most `columns` columns, broken at its spaces but not between a
// number and its unit or its comparison ("12.5 %", "74.2 s", "> 99 %"); a longer word has a line of
// its own. `first` begins the first line and `rest` the others. Every line ends with a line break.
std::string Wrapped(std::string_view text, int columns, std::string_view first = "",
                    std::string_view rest = "");

// Returns the items in lines of at most `columns` columns, with `separator` after all but the last.
// Lines are broken between items; an item that is longer than a line is broken as Wrapped does.
std::string WrappedItems(const std::vector<std::string>& items, std::string_view separator,
                         int columns, std::string_view indent);

}  // namespace meshwright
