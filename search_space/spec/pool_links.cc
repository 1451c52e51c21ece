#include "search_space/spec/pool_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace meshwright {
namespace {

// `link` is a stated or a resolved one.
template <typename Link>
bool Joins(const Link& link, std::string_view a, std::string_view b) {
  return (link.from == a && link.to == b) || (link.from == b && link.to == a);
}

const NodePool& PoolNamed(std::string_view name, const ClusterSpec& cluster) {
  return *std::ranges::find(cluster.pools, name, &NodePool::name);
}

std::string SourceOf(LinkPath path) {
  return path == LinkPath::kHost ? "chips of different vendors" : "chips of one vendor";
}

}  // namespace

std::vector<PoolLink> ResolvePoolLinks(const ClusterRequest& stated, const ClusterSpec& cluster,
                                       std::vector<AppliedDefault>& applied) {
  const InterPoolLink& usual = cluster.inter_pool;
  std::vector<PoolLink> links;
  for (std::size_t i = 0; i < stated.pool_links.size(); ++i) {
    const PoolLinkRequest& own = stated.pool_links[i];
    const auto note = [&](std::string_view field, std::string value, std::string source) {
      applied.push_back({.field = fmt::format("cluster.pool_links[{}].{}", i, field),
                         .value = std::move(value),
                         .source = std::move(source)});
    };
    const LinkPath path = UsualPath(PoolNamed(own.from, cluster), PoolNamed(own.to, cluster));
    links.push_back(
        {.from = own.from,
         .to = own.to,
         .link = {.bandwidth_per_node = own.bandwidth_per_node.value_or(usual.bandwidth_per_node),
                  .latency = own.latency.value_or(usual.latency)},
         .path = own.path.value_or(path)});
    if (!own.bandwidth_per_node.has_value()) {
      note("bandwidth_bytes_per_second_per_node", fmt::format("{}", usual.bandwidth_per_node.rate),
           "cluster.inter_pool");
    }
    if (!own.latency.has_value()) {
      note("latency_seconds", fmt::format("{}", usual.latency.count()), "cluster.inter_pool");
    }
    if (!own.path.has_value()) note("path", std::string(Word(path)), SourceOf(path));
  }
  for (std::size_t i = 0; i < cluster.pools.size(); ++i) {
    for (std::size_t j = i + 1; j < cluster.pools.size(); ++j) {
      const NodePool& a = cluster.pools[i];
      const NodePool& b = cluster.pools[j];
      const bool is_stated = std::ranges::any_of(
          links, [&](const PoolLink& link) { return Joins(link, a.name, b.name); });
      if (is_stated || UsualPath(a, b) == LinkPath::kDirect) continue;
      applied.push_back({.field = fmt::format("cluster.pool_links[{} - {}].path", a.name, b.name),
                         .value = std::string(Word(LinkPath::kHost)),
                         .source = SourceOf(LinkPath::kHost)});
    }
  }
  return links;
}

LinkPath UsualPath(const NodePool& a, const NodePool& b) {
  return a.chip.vendor == b.chip.vendor ? LinkPath::kDirect : LinkPath::kHost;
}

PoolLink LinkBetween(const NodePool& a, const NodePool& b, const ClusterSpec& cluster) {
  for (const PoolLink& link : cluster.pool_links) {
    if (Joins(link, a.name, b.name)) return link;
  }
  return {.from = a.name, .to = b.name, .link = cluster.inter_pool, .path = UsualPath(a, b)};
}

}  // namespace meshwright
