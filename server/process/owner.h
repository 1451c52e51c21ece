#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// Returns the name of this process as the owner of a study in the store: "<pid>:<start time>". The
// start time (clock ticks since boot, proc(5), field 22 of stat) distinguishes a process from a
// later one with the same pid.
std::string OwnOwner();

// Returns a name of this process among those of several machines: "<host> <pid>:<start time>". It
// is for people; IsAlive cannot tell anything from it.
std::string OwnOwnerAmongHosts();

// Returns true if the process with this name still runs on this machine, and also if that cannot be
// found out, as when there are no more file descriptors: what belongs to a process that may be
// running must not be taken from it. Returns false for any other text.
bool IsAlive(std::string_view owner);

}  // namespace meshwright
