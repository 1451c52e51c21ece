#pragma once

#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// What estimates give each device of a group inside one scale-up domain of a chip, for messages of
// 1 GiB: bus bandwidth as nccl-tests count it.
struct GroupBandwidth {
  int ranks = 0;
  BytesPerSecond all_reduce = {};
  BytesPerSecond all_to_all = {};
  // Of groups of this size: what the chip's collectives are, else assumed.
  Provenance provenance = Provenance::kAssumed;
  bool operator==(const GroupBandwidth&) const = default;
};

// Of 2, 4, 8, ... ranks up to 64, and of the whole domain. Empty: the chip stands alone.
std::vector<GroupBandwidth> GroupBandwidths(const ChipSpec& chip);

}  // namespace meshwright
