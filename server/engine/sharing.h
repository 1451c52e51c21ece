#pragma once

#include <memory>

#include "server/engine/queue/lease_keeper.h"

namespace meshwright {

struct EngineState;

// Starts what an engine does on a store that several servers share: it renews the leases of its
// studies, sees what the others have stored (wishes about these studies, studies that wait,
// events), and takes studies over whose servers are gone. The keeper must end before the engine's
// state.
std::unique_ptr<LeaseKeeper> StartSharing(EngineState& state);

}  // namespace meshwright
