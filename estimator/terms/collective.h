#pragma once

#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/cluster.h"

namespace meshwright {

// Time of one collective over a group of a pool's devices, every group of the same kind running at
// once (so the node's NICs are shared by all its devices): docs/cost_model.md "Collectives".
// `bytes` as in Collective. A group of one costs nothing.
Seconds CollectiveTime(CollectiveKind kind, Bytes bytes, const GroupShape& shape,
                       const NodePool& pool, const Topology& topology);

// What a chip's fit says of `bytes` over its own number of ranks.
Seconds FitTime(const CollectiveFit& fit, Bytes bytes);

// What a message between two devices of a node gets of the link's rate.
inline constexpr double kMessageShare = 0.75;

// One message of `bytes` between neighbouring pipeline stages of a pool.
Seconds PointToPointTime(Bytes bytes, bool leaves_node, const NodePool& pool,
                         const Topology& topology);

// One message of `bytes` from every device of a stage to the next stage in another pool.
Seconds InterPoolTime(Bytes bytes, int devices_per_node, const InterPoolLink& link);

// Share of the nodes' NIC bandwidth that one device gets while all devices send.
BytesPerSecond NicShare(const NodePool& pool, const Topology& topology, int node_span);

}  // namespace meshwright
