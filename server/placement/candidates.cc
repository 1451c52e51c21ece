#include "server/placement/candidates.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "search_space/spec/cluster.h"

namespace meshwright {
namespace {

// Returns the candidate of these pools with these numbers of nodes; the pools stand in the order of
// their cluster.
Candidate CandidateOf(const std::vector<PlacementCluster>& clusters,
                      const std::vector<PlacementPool>& pools, std::vector<PoolUse> uses) {
  Candidate candidate = {.uses = std::move(uses)};
  const PlacementPool& first = pools[static_cast<std::size_t>(candidate.uses.front().pool)];
  const v1::Cluster& whole = clusters[static_cast<std::size_t>(first.cluster)].stated;
  candidate.part = whole;
  candidate.part.clear_pools();
  for (const PoolUse& use : candidate.uses) {
    const PlacementPool& pool = pools[static_cast<std::size_t>(use.pool)];
    v1::NodePool& part = *candidate.part.add_pools();
    part = whole.pools(pool.pool);
    part.set_node_count(use.node_count);
    candidate.device_count += use.node_count * pool.devices_per_node;
  }
  return candidate;
}

std::vector<int> CountsUpTo(int node_count) {
  std::vector<int> counts;
  for (int count = 1; count < node_count; count *= 2) counts.push_back(count);
  counts.insert(counts.end(), {node_count, node_count + 1});
  return counts;
}

}  // namespace

std::vector<PlacementPool> PoolsOf(const std::vector<PlacementCluster>& clusters) {
  std::vector<PlacementPool> pools;
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    const ClusterSpec& spec = clusters[c].spec;
    for (std::size_t p = 0; p < spec.pools.size(); ++p) {
      pools.push_back({.cluster = static_cast<int>(c),
                       .pool = static_cast<int>(p),
                       .cluster_name = spec.name,
                       .pool_name = spec.pools[p].name,
                       .node_count = spec.pools[p].node_count,
                       .devices_per_node = spec.pools[p].devices_per_node});
    }
  }
  return pools;
}

std::vector<Candidate> SinglePools(const std::vector<PlacementCluster>& clusters) {
  const std::vector<PlacementPool> pools = PoolsOf(clusters);
  std::vector<Candidate> candidates;
  for (std::size_t p = 0; p < pools.size(); ++p) {
    for (const int count : CountsUpTo(pools[p].node_count)) {
      candidates.push_back(
          CandidateOf(clusters, pools, {{.pool = static_cast<int>(p), .node_count = count}}));
    }
  }
  return candidates;
}

std::vector<Candidate> PairsOfPools(const std::vector<PlacementCluster>& clusters) {
  const std::vector<PlacementPool> pools = PoolsOf(clusters);
  std::vector<Candidate> candidates;
  for (std::size_t a = 0; a < pools.size(); ++a) {
    for (std::size_t b = a + 1; b < pools.size() && pools[b].cluster == pools[a].cluster; ++b) {
      candidates.push_back(
          CandidateOf(clusters, pools,
                      {{.pool = static_cast<int>(a), .node_count = pools[a].node_count},
                       {.pool = static_cast<int>(b), .node_count = pools[b].node_count}}));
    }
  }
  return candidates;
}

std::vector<Candidate> GrownPairs(const std::vector<PlacementCluster>& clusters,
                                  const Candidate& pair) {
  const std::vector<PlacementPool> pools = PoolsOf(clusters);
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < pair.uses.size(); ++i) {
    std::vector<PoolUse> uses = pair.uses;
    ++uses[i].node_count;
    candidates.push_back(CandidateOf(clusters, pools, std::move(uses)));
  }
  return candidates;
}

bool IsThere(const std::vector<PlacementPool>& pools, const Candidate& candidate) {
  return std::ranges::all_of(candidate.uses, [&](const PoolUse& use) {
    return use.node_count <= pools[static_cast<std::size_t>(use.pool)].node_count;
  });
}

}  // namespace meshwright
