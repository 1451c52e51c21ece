#include "tests/files/source_folder.h"

#include <filesystem>

namespace meshwright {

std::filesystem::path SourceFolder() { return MESHWRIGHT_SOURCE_DIR; }

}  // namespace meshwright
