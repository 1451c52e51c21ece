#include "estimator/terms/collective.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Constants of the forms for chips without fits, from the measured tables that
// docs/cost_model/collectives.md cites.
constexpr double kSwitchedBusShare = 0.75;  // bus bandwidth / link rate: A100 222/300, H100 335/450
constexpr double kMeshBusShare = 0.7;       // 910B 125/196, MI300X 313/448 at 8 ranks
constexpr double kPcieBusShare = 0.5;       // assumed; SimuMax has 0.65 for two A100-PCIe
constexpr int kTorusAxes = 3;               // if a site states a torus and the chip has none
constexpr double kRounding = 1e-9;          // error of whole numbers after roots and ratios
constexpr double kInNodeAlpha = 2.0e-6;     // per rank of the group: A100 21 us at 8 ranks
constexpr double kInNodeHalfBytes = 4.4e6;  // x0 of the A100 fits
constexpr double kNicShare = 0.78;          // sustained share of the NIC rate: messages, all-to-all
constexpr double kExchangeHalfBytes = 3.8e6;  // of an all-to-all between nodes

// Rings and trees over nodes, fitted to two multi-node tables and checked on three others
// (docs/cost_model/collectives.md). The hops are those of NCCL's tuning table, protocol Simple.
constexpr double kRingNicShare = 0.95;
constexpr double kTreeBandwidthShare = 0.92;  // share of a ring's bandwidth
constexpr double kHopAcross = 14e-6;
constexpr double kRingHopInNode = 3.4e-6;
constexpr double kTreeHopInNode = 4.0e-6;
constexpr double kRingStart = 8.4e-6;
// A cluster's latency is that of a step from node to node of a ring with eight ranks in each.
// Nodes with more ranks, whose switches can add, count like these.
constexpr int kMostRanksInNode = 8;
constexpr double kStepOfEight = kHopAcross + (kMostRanksInNode - 1) * kRingHopInNode;

double MovedBytes(CollectiveKind kind, double bytes, int ranks) {
  const double share = (ranks - 1.0) / ranks;
  return (kind == CollectiveKind::kAllReduce ? 2 : 1) * share * bytes;
}

int AxisCount(const NodePool& pool) {
  if (pool.intra_node.topology == NodeTopology::kRing) return 1;
  return pool.chip.torus_axis_count.value_or(kTorusAxes);
}

// Returns the share of the links of a ring or torus that a group of `ranks` can use. Part of a ring
// is a line, whose ends have one of two links. On a torus a group has the links of the axes that it
// spans, and devices^(a/d) ranks lie along a of d equal axes; groups of other sizes are
// interpolated on that curve, but have at least one of the two links of one axis.
// docs/cost_model/collectives.md.
double LinkShare(const NodePool& pool, int ranks) {
  const int devices = ScaleUpDeviceCount(pool);
  if (ranks >= devices) return 1;
  if (pool.intra_node.topology == NodeTopology::kRing) return 1.0 / 2;
  return std::max(0.5 / AxisCount(pool), std::log(ranks) / std::log(devices));
}

// Returns the lengths of the axes, as equal as whole numbers allow: 32 devices in two axes have
// lengths 8 and 4.
std::vector<int> AxisLengths(int devices, int axes) {
  std::vector<int> lengths;
  for (int left = axes; left > 0; --left) {
    int length = static_cast<int>(std::ceil(std::pow(devices, 1.0 / left) - kRounding));
    while (devices % length != 0) ++length;
    lengths.push_back(length);
    devices /= length;
  }
  return lengths;
}

// Returns how many times the bytes that a device sends in an all-to-all go over the two links of
// its busiest axis, because messages pass through the devices in between. Half of a group's
// messages cross its middle: on a ring of length L over two links in each direction, L/4 times; on
// a line of length n over one link, n/2 times. An axis of two devices is a line. (The ring:
// jax-ml/scaling-book, sharding.md @04d8de5; the line and several axes follow from the same count.)
// A group fills whole axes if its size allows, as a mesh of devices is laid out; otherwise it fills
// one more axis in part, in the way that loads the busiest axis least.
double AllToAllLoad(const std::vector<int>& lengths, int ranks) {
  std::pair<bool, double> least(true, std::numeric_limits<double>::infinity());
  for (unsigned filled = 0; filled < 1U << lengths.size(); ++filled) {
    double rest = ranks;
    double load = 0;
    for (std::size_t axis = 0; axis < lengths.size(); ++axis) {
      const int length = lengths[axis];
      if ((filled >> axis & 1U) == 0 || length == 1) continue;
      rest /= length;
      load = std::max(load, length == 2 ? 1.0 : length / 4.0);
    }
    if (rest < 1 - kRounding) continue;
    const bool is_split = rest > 1 + kRounding;
    least = std::min(least, std::pair(is_split, is_split ? std::max(load, rest / 2) : load));
  }
  return least.second;
}

// Returns LinkShare for an all-to-all.
double AllToAllShare(const NodePool& pool, int ranks) {
  const int axes = AxisCount(pool);
  const std::vector<int> lengths = AxisLengths(ScaleUpDeviceCount(pool), axes);
  return (ranks - 1.0) / ranks / (axes * AllToAllLoad(lengths, ranks));
}

// Returns the bus bandwidth of `ranks` devices of one domain, from the link's rate and its wiring.
double BusBandwidth(CollectiveKind kind, const NodePool& pool, int ranks) {
  const ScaleUpLink& link = pool.intra_node;
  switch (link.topology) {
    case NodeTopology::kFullMesh: {
      const int peers = std::max(1, link.domain_size - 1);
      return link.bandwidth.rate / peers * std::min(ranks - 1, peers) * kMeshBusShare;
    }
    case NodeTopology::kPcieTree:
      return link.bandwidth.rate * kPcieBusShare;
    case NodeTopology::kTorus:
    case NodeTopology::kRing:
      return link.bandwidth.rate * kSwitchedBusShare *
             (kind == CollectiveKind::kAllToAll ? AllToAllShare(pool, ranks)
                                                : LinkShare(pool, ranks));
    case NodeTopology::kSwitched:
    case NodeTopology::kRackSwitched:
      return link.bandwidth.rate * kSwitchedBusShare;
  }
  std::abort();
}

// Returns true if the factor between a and `ranks` is smaller than the one between b and `ranks`.
bool IsNearer(int a, int b, int ranks) {
  return std::int64_t{std::max(a, ranks)} * std::min(b, ranks) <
         std::int64_t{std::max(b, ranks)} * std::min(a, ranks);
}

// Returns the chip's fit for this operation whose group size is nearest (as a ratio); nullptr if
// the chip has none.
const CollectiveFit* NearestFit(CollectiveKind kind, int ranks, const ChipSpec& chip) {
  const CollectiveFit* best = nullptr;
  for (const CollectiveFit& fit : chip.collectives) {
    if (fit.kind != kind) continue;
    if (best == nullptr || IsNearer(fit.ranks, best->ranks, ranks)) best = &fit;
  }
  return best;
}

double FormulaTime(const CollectiveFit& fit, double bytes, double bandwidth) {
  const double x = MovedBytes(fit.kind, bytes, fit.ranks);
  return fit.alpha.count() + (x + std::sqrt(x * static_cast<double>(fit.half.count))) / bandwidth;
}

// Returns the ratio of the measured time to the formula's at a message size: between measured sizes
// on a line over the logarithm of the size, beyond them as at the nearest. The formula covers what
// a site's link or another number of ranks changes; the ratio covers what the formula misses.
double CurveRatio(const CollectiveFit& fit, double bytes) {
  if (fit.curve.empty()) return 1;
  const auto log_ratio = [&fit](const CollectivePoint& point) {
    const double size = static_cast<double>(point.bytes.count);
    return std::log(point.time.count() / FormulaTime(fit, size, fit.bandwidth.rate));
  };
  const auto above = std::lower_bound(fit.curve.begin(), fit.curve.end(), bytes,
                                      [](const CollectivePoint& point, double size) {
                                        return static_cast<double>(point.bytes.count) < size;
                                      });
  if (above == fit.curve.begin()) return std::exp(log_ratio(fit.curve.front()));
  if (above == fit.curve.end()) return std::exp(log_ratio(fit.curve.back()));
  const CollectivePoint& low = *std::prev(above);
  const double from = std::log(static_cast<double>(low.bytes.count));
  const double to = std::log(static_cast<double>(above->bytes.count));
  const double share = (std::log(bytes) - from) / (to - from);
  return std::exp((1 - share) * log_ratio(low) + share * log_ratio(*above));
}

double InNodeTime(CollectiveKind kind, double bytes, int ranks, const NodePool& pool) {
  if (ranks <= 1 || bytes <= 0) return 0;
  const double x = MovedBytes(kind, bytes, ranks);
  if (const CollectiveFit* fit = NearestFit(kind, ranks, pool.chip)) {
    const double site = pool.chip.scale_up.bandwidth.rate > 0
                            ? pool.intra_node.bandwidth.rate / pool.chip.scale_up.bandwidth.rate
                            : 1;
    const double formula =
        fit->alpha.count() +
        (x + std::sqrt(x * static_cast<double>(fit->half.count))) / (fit->bandwidth.rate * site);
    return formula * CurveRatio(*fit, bytes);
  }
  const double alpha = kInNodeAlpha * ranks + 5e-6;
  return alpha + (x + std::sqrt(x * kInNodeHalfBytes)) / BusBandwidth(kind, pool, ranks);
}

// Returns the time of a ring or tree over several nodes. Each NIC carries the traffic of one ring,
// which passes through all ranks of a node before it goes on to the next one.
double AcrossTime(CollectiveKind kind, double bytes, const GroupShape& shape, double bandwidth,
                  double latency) {
  const double bulk = MovedBytes(kind, bytes / shape.in_node, Ranks(shape)) / bandwidth;
  const double scale = latency / kStepOfEight;
  const int others = std::min(shape.in_node, kMostRanksInNode) - 1;
  const double step = scale * (kHopAcross + others * kRingHopInNode);
  const double ring_steps = scale * kRingStart + (shape.nodes - 1) * step;
  if (kind != CollectiveKind::kAllReduce) return ring_steps + bulk;
  const double depth = std::bit_width(static_cast<unsigned>(shape.nodes - 1));
  const double tree_steps =
      scale * (kRingStart + 2 * (depth * kHopAcross + others * kTreeHopInNode));
  return std::min(ring_steps + (shape.nodes - 1) * step + bulk,
                  tree_steps + bulk / kTreeBandwidthShare);
}

}  // namespace

Seconds FitTime(const CollectiveFit& fit, Bytes bytes) {
  const auto size = static_cast<double>(bytes.count);
  return Seconds(FormulaTime(fit, size, fit.bandwidth.rate) * CurveRatio(fit, size));
}

BytesPerSecond NicShare(const NodePool& pool, const Topology& topology, int node_span) {
  const InterNodeLink& nic = pool.inter_node;
  double rate = nic.nic_bandwidth.rate * nic.nic_count / pool.devices_per_node;
  if (node_span > topology.nodes_per_segment) rate /= topology.oversubscription_ratio;
  return {rate};
}

Seconds CollectiveTime(CollectiveKind kind, Bytes bytes, const GroupShape& shape,
                       const NodePool& pool, const Topology& topology) {
  const double size = static_cast<double>(bytes.count);
  const int ranks = Ranks(shape);
  if (ranks <= 1 || size <= 0) return Seconds(0);
  const bool is_ring = kind == CollectiveKind::kRing;
  const Bytes hop = is_ring ? Scale(bytes, 1.0 / ranks) : bytes;
  if (shape.nodes == 1) {
    if (is_ring) return (ranks - 1) * PointToPointTime(hop, false, pool, topology);
    return Seconds(InNodeTime(kind, size, ranks, pool));
  }
  const int node_span =
      shape.nodes * shape.node_stride * ScaleUpDeviceCount(pool) / pool.devices_per_node;
  const double nics = NicShare(pool, topology, node_span).rate;
  const double share = nics * kNicShare;
  const double latency = pool.inter_node.latency.count();
  if (is_ring) {
    // A step waits for its slowest hop. In each node only one rank of the group sends to another
    // node; it gets the NIC shares of all the group's ranks there, but no more than one NIC.
    const double one_nic = pool.inter_node.nic_bandwidth.rate * kNicShare;
    const double rate = std::min(share * shape.in_node, one_nic);
    const Seconds across = pool.inter_node.latency + hop / BytesPerSecond{rate};
    const Seconds inside =
        shape.in_node > 1 ? PointToPointTime(hop, false, pool, topology) : Seconds(0);
    return (ranks - 1) * std::max(inside, across);
  }
  if (kind == CollectiveKind::kAllToAll) {
    // Each rank sends a share of its buffer to the ranks of its node and the rest through its NIC.
    const double n = ranks;
    const double inside = size * shape.in_node / n;
    const double in_node = InNodeTime(kind, inside, shape.in_node, pool);
    const double outside = size * (n - shape.in_node) / n;
    const double across = latency + latency / 2 * std::log2(shape.nodes) +
                          (outside + std::sqrt(outside * kExchangeHalfBytes)) / share;
    return Seconds(std::max(in_node, across));
  }
  // The links of a node and its NICs are parts of the same rings: the slower sets their pace.
  const double in_node = InNodeTime(kind, size, shape.in_node, pool);
  return Seconds(std::max(in_node, AcrossTime(kind, size, shape, nics * kRingNicShare, latency)));
}

Seconds PointToPointTime(Bytes bytes, bool leaves_node, const NodePool& pool,
                         const Topology& topology) {
  if (!leaves_node) {
    return Seconds(10e-6) + bytes / (pool.intra_node.bandwidth * kMessageShare);
  }
  return pool.inter_node.latency + bytes / (NicShare(pool, topology, 2) * kNicShare);
}

BytesPerSecond RingShare(const NodePool& pool, const Topology& topology, int rings) {
  return NicShare(pool, topology, pool.node_count) *
         (kRingNicShare * pool.devices_per_node / std::max(1, rings));
}

Seconds RingTime(CollectiveKind kind, Bytes bytes, int ranks, const RingHop& hop) {
  const int rounds = kind == CollectiveKind::kAllReduce ? 2 : 1;
  const double moved = MovedBytes(kind, static_cast<double>(bytes.count), ranks);
  return Seconds(moved * hop.seconds_per_byte) + rounds * (ranks - 1) * hop.latency;
}

Seconds InterPoolTime(Bytes bytes, double nodes, const InterPoolLink& link) {
  return link.latency + bytes / (link.bandwidth_per_node * nodes);
}

}  // namespace meshwright
