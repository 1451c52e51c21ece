#pragma once

#include "search_space/base/units.h"
#include "search_space/spec/chip.h"

namespace meshwright {

// Returns the time of a kernel that reads and writes `bytes` and computes little:
// docs/cost_model/kernels.md "Memory-bound operators". Data that fits into half of the cache runs
// from it. `efficiency` is a share of the nominal bandwidth.
Seconds StreamTime(Bytes bytes, double efficiency, const ChipSpec& chip);

}  // namespace meshwright
