#pragma once

#include <span>
#include <string>
#include <vector>

#include "search_space/spec/chip.h"
#include "vendor_models/object_reader.h"

namespace meshwright {

// Parses `gemm_tiles` of a chip file (vendor_models/README.md) except for their source. Errors go
// to `reader`; the result is never empty.
std::vector<GemmTile> ParseTiles(ObjectReader& reader);

// Returns the tiles as text: `256x128 128x256`.
std::string TilesText(std::span<const GemmTile> tiles);

}  // namespace meshwright
