#pragma once

#include "server/engine/engine.h"
#include "server/flags.h"

namespace meshwright {

// Deletes from the store what is older than the flags say: estimates and events of old studies, and
// audit events. Works in small steps, so that others can use the store between two of them. The log
// says what was deleted, and what could not be.
void DeleteWhatIsOld(const Flags& flags, const Engine& engine);

}  // namespace meshwright
