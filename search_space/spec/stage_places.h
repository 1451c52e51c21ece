#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The nodes of the stages of a plan whose stages name their pools. Stages take the nodes of their
// pool one after the other: replica by replica, and in each in the order of the pipeline. A stage
// that is a part of a node lies beside the part before it if the node has room for both.
struct StagePlaces {
  // For each replica group (or `stages`) and each stage of its first replica: the node that the
  // stage is a part of; absent for a stage of whole nodes.
  std::vector<std::vector<std::optional<int>>> shared_nodes = {};
  std::vector<std::vector<std::optional<int>>> last_nodes = {};  // the same of its last replica
  // Groups whose replicas do not all share nodes in the same way.
  std::vector<std::size_t> uneven_groups = {};
  std::map<std::string, int> node_counts = {};  // of the pools that are used
};

// The degrees of the plan need not be legal.
StagePlaces PlaceStages(const ParallelPlan& plan, const ClusterSpec& cluster);

// Returns what is wrong with the places: parts of nodes that are not inside one node, replicas of a
// group that lie differently, and more nodes than a pool has. Pools that do not exist are left to
// others.
std::vector<FieldViolation> CheckPlaces(const ParallelPlan& plan, const ClusterSpec& cluster,
                                        std::string_view prefix);

// Returns the number of devices of a stage in its pool.
int DeviceCount(const StagePlan& stage, const NodePool& pool);

// Returns the replica groups of a plan whose stages name their pools; one for `stages`, with
// replica_count 1.
std::vector<ReplicaGroup> GroupsOf(const ParallelPlan& plan);

}  // namespace meshwright
