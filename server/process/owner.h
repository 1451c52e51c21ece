#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// Who runs a study, as the store keeps it: "<pid>:<start time of that process>". The start time
// (clock ticks since boot, proc(5), field 22 of stat) tells a process from a later one that was
// given the same pid.
std::string OwnOwner();

// Whether the process that wrote this text still runs on this machine. False for any other text.
bool IsAlive(std::string_view owner);

}  // namespace meshwright
