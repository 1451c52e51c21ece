#pragma once

#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"

namespace meshwright {

// Returns the stated links with what they leave out, and echoes the defaults, also the paths
// through hosts of pairs whose link is not stated. `cluster` has its pools and inter_pool.
std::vector<PoolLink> ResolvePoolLinks(const ClusterRequest& stated, const ClusterSpec& cluster,
                                       std::vector<AppliedDefault>& applied);

// Returns the path of messages between two pools if none is stated. Chips of different vendors have
// no common library of collectives, so that their messages go through the hosts.
LinkPath UsualPath(const NodePool& a, const NodePool& b);

// Returns the link between two different pools of the cluster, in either direction.
PoolLink LinkBetween(const NodePool& a, const NodePool& b, const ClusterSpec& cluster);

}  // namespace meshwright
