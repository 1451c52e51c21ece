#pragma once

#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The bandwidth that estimates give each device of a group inside one scale-up domain of a chip,
// for messages of 1 GiB: bus bandwidth as defined by nccl-tests.
struct GroupBandwidth {
  int ranks = 0;
  BytesPerSecond all_reduce = {};
  BytesPerSecond all_to_all = {};
  // The provenance of the chip's collectives for groups of this size; assumed if it has none.
  Provenance provenance = Provenance::kAssumed;
  bool operator==(const GroupBandwidth&) const = default;
};

// Returns the bandwidth of groups of 2, 4, 8, ... ranks up to 64, and of the whole domain. Returns
// an empty vector if the chip has no scale-up links.
std::vector<GroupBandwidth> GroupBandwidths(const ChipSpec& chip);

}  // namespace meshwright
