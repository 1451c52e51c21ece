#include "estimator/terms/token_exchange.h"

#include <algorithm>
#include <cmath>

#include "estimator/terms/collective.h"

namespace meshwright {
namespace {

// Fit of DeepEP's normal kernels with 20 cores, Megatron-Core's default, over half of the shapes of
// the aiconfigurator table of H100, H200, B200, B300 and GB200; errors on the other half:
// docs/cost_model/experts.md.
constexpr double kFixed = 33e-6;
constexpr double kLinkShare = 0.72;     // of the scale-up link
constexpr double kMostByCores = 333e9;  // what 20 cores copy, bytes per second
constexpr double kLinkHalfBytes = 5.5e6;
constexpr double kNicHalfBytes = 2.0e6;
constexpr double kFasterTierShare = 0.08;  // of the faster tier's time, which is not hidden
constexpr double kCopyEngineShare = 0.75;  // assumed: as of other collectives over a switch

// Returns the probability that none of `chosen` of `all` things is among `some` of them.
double NoneAmong(double some, double all, int chosen) {
  double none = 1;
  for (int i = 0; i < chosen && none > 0; ++i) none *= std::max(0.0, all - some - i) / (all - i);
  return none;
}

double Ramped(double bytes, double half, double rate) {
  return bytes <= 0 ? 0 : (bytes + std::sqrt(bytes * half)) / rate;
}

double InNodeRate(const TokenExchange& exchange, const NodePool& pool) {
  const double link = pool.intra_node.bandwidth.rate;
  if (exchange.uses_copy_engines) return link * kCopyEngineShare;
  return std::min(link * kLinkShare, kMostByCores);
}

}  // namespace

double HoldersReached(const TokenExchange& exchange, int holders) {
  const double experts = exchange.expert_count;
  const double held = experts / holders;
  double open_holders = holders;  // those that hold an expert of a chosen group
  double open_experts = experts;
  if (exchange.group_count > 0) {
    const double groups = exchange.group_count;
    const double chosen = exchange.groups_per_token;
    open_experts = experts * chosen / groups;
    open_holders =
        holders <= groups
            ? holders * (1 - NoneAmong(groups / holders, groups, exchange.groups_per_token))
            : holders * chosen / groups;
  }
  // A chosen holder has this many of the experts that the choice is left to.
  const double open_held = std::min(held, open_experts / open_holders);
  return open_holders * (1 - NoneAmong(open_held, open_experts, exchange.experts_per_token));
}

Seconds TokenExchangeTime(const TokenExchange& exchange, const GroupShape& shape,
                          const NodePool& pool, const Topology& topology) {
  const int ranks = Ranks(shape);
  if (ranks <= 1 || exchange.bytes <= 0) return Seconds(0);
  // A share of 1 / ranks is the rank's own; the rest of what lands in a node goes over its links.
  const double reached = HoldersReached(exchange, ranks) * (ranks - 1) / ranks;
  const double inside = shape.in_node == 1 ? 0
                                           : Ramped(exchange.bytes * reached, kLinkHalfBytes,
                                                    InNodeRate(exchange, pool));
  if (shape.nodes == 1) return Seconds(kFixed + inside);
  const int node_span =
      shape.nodes * shape.node_stride * ScaleUpDeviceCount(pool) / pool.devices_per_node;
  const double nodes = HoldersReached(exchange, shape.nodes) * (shape.nodes - 1) / shape.nodes;
  const double across =
      Ramped(exchange.bytes * nodes, kNicHalfBytes, NicShare(pool, topology, node_span).rate);
  return Seconds(kFixed + std::max(inside, across) + kFasterTierShare * std::min(inside, across));
}

}  // namespace meshwright
