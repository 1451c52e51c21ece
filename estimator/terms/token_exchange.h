#pragma once

#include "estimator/terms/kernel.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"

namespace meshwright {

// Returns the mean number of `holders` that a token reaches. They hold equal shares of the experts,
// of which the router chooses experts_per_token.
double HoldersReached(const TokenExchange& exchange, int holders);

// Returns the time in which the ranks of a group send their tokens to experts, or get them back:
// once to each node over the NICs, and on to each rank inside the node
// (docs/cost_model/experts.md).
Seconds TokenExchangeTime(const TokenExchange& exchange, const GroupShape& shape,
                          const NodePool& pool, const Topology& topology);

}  // namespace meshwright
