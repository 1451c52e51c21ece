#pragma once

#include "search_space/units.h"

namespace meshwright {

// What a device moves to or from host memory, each way: pinned memory over PCIe 4, assumed for all
// chips (docs/cost_model.md "Host link").
inline constexpr BytesPerSecond kHostLink = {26e9};

}  // namespace meshwright
