#pragma once

#include <string>
#include <string_view>

#include "vendor_models/chip_file.h"

namespace meshwright {

// Returns the chip file that reads as `entry` (ParseChipFile), without the values that the entry
// took from the class defaults. Each figure is on a line of its own, so that versions can be
// compared.
std::string ChipFileText(const ChipEntry& entry);

// Returns the figure with this name, or null if there is none.
const ChipFigure* FindFigure(const ChipEntry& entry, std::string_view name);

// Sets a number of `entry` and its source: `figure.name` is a key of `figures` in a chip file, and
// `figure.value` is a number as text. Returns false if there is no such key.
bool SetFigure(ChipEntry& entry, const ChipFigure& figure);

}  // namespace meshwright
