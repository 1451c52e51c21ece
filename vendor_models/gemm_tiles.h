#pragma once

#include <span>
#include <string>
#include <vector>

#include "search_space/spec/chip.h"
#include "vendor_models/object_reader.h"

namespace meshwright {

// `gemm_tiles` of a chip file (vendor_models/README.md), but for where they come from. Errors go to
// `reader`; the result is never empty.
std::vector<GemmTile> ParseTiles(ObjectReader& reader);

// `256x128 128x256`
std::string TilesText(std::span<const GemmTile> tiles);

}  // namespace meshwright
