#pragma once

#include <string>
#include <vector>

namespace meshwright {

// Returns the ids of the other processes of which one of these files (`environ`, `cmdline`) of
// /proc/<pid> holds the text. A process that ends while it is read is left out.
std::vector<int> ProcessesWith(const std::string& text, const std::vector<std::string>& files);

}  // namespace meshwright
