#pragma once

#include <string>

#include "vendor_models/chip_file.h"

namespace meshwright {

// The chip file that reads as `entry` (ParseChipFile), without what the entry took from the class
// defaults. A figure a line, so that versions of it can be compared.
std::string ChipFileText(const ChipEntry& entry);

// Sets a number of `entry` and where it comes from: `figure.name` is a key of `figures` in a chip
// file, `figure.value` a number as text. False: there is no such key.
bool SetFigure(ChipEntry& entry, const ChipFigure& figure);

}  // namespace meshwright
