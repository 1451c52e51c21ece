#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// Returns `; did you mean "bf16"?` for a mistake that lists the words of a closed set ("\"bf61\";
// must be one of bf16, fp16"), if one of them is close to the word that was given; else an empty
// text.
std::string SuggestionFor(std::string_view mistake);

}  // namespace meshwright
