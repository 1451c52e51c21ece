#pragma once

#include <string>
#include <vector>

namespace meshwright {

// Returns the entries of a folder that are named by a number, such as the processes of /proc or the
// threads of /proc/<pid>/task (proc(5)). A folder that goes away while it is read, as that of a
// process does, has no further entries.
std::vector<int> NumbersIn(const std::string& folder);

}  // namespace meshwright
