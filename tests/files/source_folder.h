#pragma once

#include <filesystem>

namespace meshwright {

// Returns the root of the repository that a test was built from. Only this library is compiled with
// the name, so that another checkout can use what this one compiled of everything else (ccache).
std::filesystem::path SourceFolder();

}  // namespace meshwright
