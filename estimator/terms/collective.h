#pragma once

#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/cluster.h"

namespace meshwright {

// Returns the time of one collective over a group of a pool's devices. All groups of the same kind
// run at once, so that all devices of a node share its NICs: docs/cost_model/collectives.md.
// `bytes` is that of Collective. A group of one costs nothing.
Seconds CollectiveTime(CollectiveKind kind, Bytes bytes, const GroupShape& shape,
                       const NodePool& pool, const Topology& topology);

// Returns the time of `bytes` by a chip's fit, for the fit's own number of ranks.
Seconds FitTime(const CollectiveFit& fit, Bytes bytes);

// Share of the link's rate that a message between two devices of a node gets.
inline constexpr double kMessageShare = 0.75;

// Returns the time of one message between neighbouring pipeline stages of a pool.
Seconds PointToPointTime(Bytes bytes, bool leaves_node, const NodePool& pool,
                         const Topology& topology);

// Returns the time in which a stage sends `bytes` in all to the next stage, in another pool. All of
// them leave the nodes of the one and enter those of the other; `nodes` is the smaller number.
Seconds InterPoolTime(Bytes bytes, double nodes, const InterPoolLink& link);

// Returns the share of its node's NIC bandwidth that one device gets while all devices send.
BytesPerSecond NicShare(const NodePool& pool, const Topology& topology, int node_span);

// Returns the rate of one of `rings` rings that pass from node to node of a pool side by side.
BytesPerSecond RingShare(const NodePool& pool, const Topology& topology, int rings);

// The slowest hop of a ring.
struct RingHop {
  double seconds_per_byte = 0;
  Seconds latency = Seconds(0);
  bool operator==(const RingHop&) const = default;
};

// Returns the time of a collective over a ring of `ranks`, all of which send at once.
Seconds RingTime(CollectiveKind kind, Bytes bytes, int ranks, const RingHop& hop);

}  // namespace meshwright
