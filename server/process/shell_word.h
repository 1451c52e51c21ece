#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// Returns a word in single quotes, as which a POSIX shell takes it without change.
std::string ShellWord(std::string_view word);

}  // namespace meshwright
