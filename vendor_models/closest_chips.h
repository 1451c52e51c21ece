#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vendor_models/chip_file.h"

namespace meshwright {

// The few chips that a mistyped name may have meant; all are of one vendor, because a card of
// another one is never what was meant.
struct ClosestChips {
  std::string vendor = {};  // empty: no chip is close
  int vendor_chip_count = 0;
  std::vector<std::string_view> ids = {};  // the closest first
};

// Returns the closest chips of the vendor that the name states ("GeForce", "MTT"), or, if it states
// none, of the vendor of the closest chip. The ids are views into `chips`.
ClosestChips FindClosestChips(std::string_view wanted, std::span<const ChipEntry> chips);

}  // namespace meshwright
