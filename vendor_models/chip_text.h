#pragma once

#include <string>
#include <string_view>

#include "vendor_models/chip_file.h"

namespace meshwright {

// The chip file that reads as `entry` (ParseChipFile), without what the entry took from the class
// defaults. A figure a line, so that versions of it can be compared.
std::string ChipFileText(const ChipEntry& entry);

// Null: there is none of this name.
const ChipFigure* FindFigure(const ChipEntry& entry, std::string_view name);

// Sets a number of `entry` and where it comes from: `figure.name` is a key of `figures` in a chip
// file, `figure.value` a number as text. False: there is no such key.
bool SetFigure(ChipEntry& entry, const ChipFigure& figure);

}  // namespace meshwright
