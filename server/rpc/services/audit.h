#pragma once

#include <functional>

#include "server/engine/engine.h"
#include "server/rpc/calls/call_end.h"

namespace meshwright {

// Returns what keeps audited calls in the store of an engine, which must outlive it. A call that
// cannot be kept stands in the log as an error.
std::function<void(const AuditedCall&)> AuditTo(const Engine& engine);

}  // namespace meshwright
