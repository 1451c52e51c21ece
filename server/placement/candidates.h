#pragma once

#include <string>
#include <vector>

#include "meshwright/v1/problem.pb.h"
#include "server/placement/question.h"
#include "server/tuner/placement/assignment.h"

namespace meshwright {

// A pool of any of the clusters.
struct PlacementPool {
  int cluster = 0;  // index
  int pool = 0;     // index in the cluster
  std::string cluster_name = {};
  std::string pool_name = {};
  int node_count = 0;
  int devices_per_node = 0;
};

std::vector<PlacementPool> PoolsOf(const std::vector<PlacementCluster>& clusters);

// Nodes that a job may have to itself.
struct Candidate {
  std::vector<PoolUse> uses = {};  // by the index in PoolsOf; two if the pools are mixed
  int device_count = 0;
  v1::Cluster part = {};  // the cluster that `tune` is asked about
};

// Returns the nodes of single pools: powers of two, the whole pool, and one node more, which counts
// only for the value of a node.
std::vector<Candidate> SinglePools(const std::vector<PlacementCluster>& clusters);

// Returns every two pools of a cluster, each whole.
std::vector<Candidate> PairsOfPools(const std::vector<PlacementCluster>& clusters);

// Returns a pair with one node more in its first pool, and with one more in its second.
std::vector<Candidate> GrownPairs(const std::vector<PlacementCluster>& clusters,
                                  const Candidate& pair);

// Returns true if a candidate has no more nodes than its pools.
bool IsThere(const std::vector<PlacementPool>& pools, const Candidate& candidate);

}  // namespace meshwright
