#pragma once

#include <vector>

#include "absl/status/status.h"
#include "server/flags.h"

namespace meshwright {

// Reads all that the flags name as the server would, without taking an address or the store.
// Returns what is wrong, one status for each flag; empty: nothing.
std::vector<absl::Status> CheckConfig(const Flags& flags);

}  // namespace meshwright
