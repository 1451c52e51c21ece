#include "estimator/model/replica_ring.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "estimator/terms/collective.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/pool_links.h"
#include "search_space/spec/stage_places.h"

namespace meshwright {
namespace {

// The ranks of a ring in one pool.
struct PoolOfRing {
  int replicas = 0;
  int rings = 1;             // side by side through the link of a node
  std::set<int> parts = {};  // nodes that replicas are a part of
  bool has_whole_nodes = false;
};

class Rings {
 public:
  Rings(const ParallelPlan& plan, const EstimatorProblem& problem)
      : plan_(plan), problem_(problem), places_(PlaceStages(plan, problem.cluster)) {}

  // Returns the ring of the stage that holds `count` layers from `first` on: the slowest of those
  // of its layers, whose ranks differ if the stages of other replicas end at other layers. A stage
  // without layers holds the embedding or the output layer, and has the ring of the layer beside.
  [[nodiscard]] ReplicaRing Of(int first, int count) const {
    int last = -1;
    for (const StagePlan& stage : plan_.replica_groups.front().stages) last += stage.layer_count;
    ReplicaRing slowest = {.ranks = 0};
    int layer = std::max(0, std::min(first, last));
    const int end = std::max(first + count, layer + 1);
    while (layer < end) layer = std::min(end, AddRingOf(layer, slowest));
    return slowest;
  }

 private:
  // Adds the ring of a layer. Returns the first layer after it whose ring may be another.
  int AddRingOf(int layer, ReplicaRing& ring) const {
    std::map<int, PoolOfRing> pools;  // by their place in the cluster
    int ranks = 0;
    int next = std::numeric_limits<int>::max();
    for (std::size_t g = 0; g < plan_.replica_groups.size(); ++g) {
      const ReplicaGroup& group = plan_.replica_groups[g];
      int stage_end = 0;
      for (std::size_t i = 0; i < group.stages.size(); ++i) {
        const StagePlan& stage = group.stages[i];
        stage_end += stage.layer_count;
        if (stage_end <= layer) continue;
        Add(g, i, pools[PlaceOf(stage.pool)]);
        ranks += group.replica_count * stage.context_parallel;
        next = std::min(next, stage_end);
        break;
      }
    }
    ring.ranks = std::max(ring.ranks, ranks);
    for (const auto& [place, members] : pools) AddHopsInside(place, members, ring);
    AddHopsBetween(pools, ring);
    return next;
  }

  [[nodiscard]] int PlaceOf(const std::string& pool) const {
    const auto& pools = problem_.cluster.pools;
    return static_cast<int>(std::ranges::find(pools, pool, &NodePool::name) - pools.begin());
  }
  [[nodiscard]] const NodePool& PoolAt(int place) const {
    return problem_.cluster.pools[static_cast<std::size_t>(place)];
  }

  // Adds the replicas of a group by one of their stages.
  void Add(std::size_t g, std::size_t i, PoolOfRing& members) const {
    const ReplicaGroup& group = plan_.replica_groups[g];
    const StagePlan& stage = group.stages[i];
    members.replicas += group.replica_count * stage.context_parallel;
    const std::optional<int> node = places_.shared_nodes[g][i];
    // Each stage in a node has rings of its own, and each of its tensor-parallel ranks has one.
    int rings = stage.tensor_parallel;
    if (node.has_value()) {
      members.parts.insert({*node, *places_.last_nodes[g][i]});
      for (std::size_t other = 0; other < group.stages.size(); ++other) {
        const bool is_beside = other != i && group.stages[other].pool == stage.pool &&
                               places_.shared_nodes[g][other] == node;
        if (is_beside) rings += group.stages[other].tensor_parallel;
      }
    } else {
      members.has_whole_nodes = true;
    }
    members.rings =
        std::max(members.rings, std::min(rings, PoolAt(PlaceOf(stage.pool)).devices_per_node));
  }

  static void Slow(double seconds_per_byte, Seconds latency, ReplicaRing& ring) {
    ring.hop.seconds_per_byte = std::max(ring.hop.seconds_per_byte, seconds_per_byte);
    ring.hop.latency = std::max(ring.hop.latency, latency);
  }

  void AddHopsInside(int place, const PoolOfRing& members, ReplicaRing& ring) const {
    if (members.replicas < 2) return;
    const NodePool& pool = PoolAt(place);
    const bool leaves_node = ScaleUpDeviceCount(pool) < DeviceCount(pool) &&
                             (members.has_whole_nodes || members.parts.size() > 1);
    if (leaves_node) {
      const BytesPerSecond rate = RingShare(pool, problem_.cluster.topology, members.rings);
      Slow(1 / rate.rate, pool.inter_node.latency, ring);
      ring.leaves_node = true;
      return;
    }
    const Seconds latency = PointToPointTime({}, false, pool, problem_.cluster.topology);
    Slow(1 / (pool.intra_node.bandwidth.rate * kMessageShare), latency, ring);
  }

  // The ring passes from pool to pool in their order, and back to the first.
  void AddHopsBetween(const std::map<int, PoolOfRing>& pools, ReplicaRing& ring) const {
    if (pools.size() < 2) return;
    for (auto from = pools.begin(); from != pools.end(); ++from) {
      const auto to = std::next(from) == pools.end() ? pools.begin() : std::next(from);
      const NodePool& a = PoolAt(from->first);
      const NodePool& b = PoolAt(to->first);
      const PoolLink link = LinkBetween(a, b, problem_.cluster);
      const int rings = std::max(from->second.rings, to->second.rings);
      double seconds_per_byte = rings / link.link.bandwidth_per_node.rate;
      if (link.path == LinkPath::kHost) {
        seconds_per_byte += 1 / a.chip.host_link.rate + 1 / b.chip.host_link.rate;
      }
      Slow(seconds_per_byte, link.link.latency, ring);
    }
    ring.leaves_node = true;
  }

  const ParallelPlan& plan_;
  const EstimatorProblem& problem_;
  StagePlaces places_;
};

}  // namespace

std::vector<ReplicaRing> RingsOf(const ParallelPlan& plan, std::size_t group,
                                 const EstimatorProblem& problem) {
  const Rings all(plan, problem);
  std::vector<ReplicaRing> rings;
  int first = 0;
  for (const StagePlan& stage : plan.replica_groups[group].stages) {
    rings.push_back(all.Of(first, stage.layer_count));
    first += stage.layer_count;
  }
  return rings;
}

}  // namespace meshwright
