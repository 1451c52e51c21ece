#pragma once

#include <string>

namespace meshwright {

// Returns the file of the history that is used by default: $XDG_STATE_HOME/meshwright/history.db,
// or ~/.local/state/meshwright/history.db.
std::string DefaultStorePath();

}  // namespace meshwright
