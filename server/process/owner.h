#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// Returns this process as the store names the owner of a study: "<pid>:<start time>". The start
// time (clock ticks since boot, proc(5), field 22 of stat) tells a process from a later one with
// the same pid.
std::string OwnOwner();

// Returns true if the process that wrote this text still runs on this machine. False for any other
// text.
bool IsAlive(std::string_view owner);

}  // namespace meshwright
