#include "search_space/spec/pool_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
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

// Checks that no link before `i` joins the same pools.
void CheckIsFirst(const ClusterRequest& cluster, std::size_t i, LimitChecker& check) {
  const PoolLinkRequest& link = cluster.pool_links[i];
  const auto values = [](const PoolLinkRequest& of) {
    return std::tie(of.bandwidth_per_node, of.latency, of.path);
  };
  for (std::size_t j = 0; j < i; ++j) {
    const PoolLinkRequest& other = cluster.pool_links[j];
    if (!Joins(other, link.from, link.to)) continue;
    check.Add(fmt::format("pool_links[{}]", i),
              fmt::format("\"{}\" and \"{}\"; pool_links[{}] has {} for this pair, and a pair has "
                          "one link for both directions",
                          link.from, link.to, j,
                          values(link) == values(other) ? "the same values" : "other values"));
    return;
  }
}

}  // namespace

void CheckPoolLinks(const ClusterRequest& cluster, LimitChecker& check) {
  for (std::size_t i = 0; i < cluster.pool_links.size(); ++i) {
    const PoolLinkRequest& link = cluster.pool_links[i];
    const std::string at = fmt::format("pool_links[{}].", i);
    for (const auto& [field, name] : {std::pair("from", link.from), std::pair("to", link.to)}) {
      if (std::ranges::count(cluster.pools, name, &NodePoolRequest::name) > 0) continue;
      check.Add(at + field, fmt::format("\"{}\"; no pool of the cluster has this name", name));
    }
    if (link.from == link.to) {
      check.Add(at + "to", fmt::format("\"{}\"; must be another pool than from", link.to));
    }
    if (link.bandwidth_per_node) {
      check.Positive(at + "bandwidth_bytes_per_second_per_node", link.bandwidth_per_node->rate);
    }
    if (link.latency) check.AtLeast(at + "latency_seconds", link.latency->count(), 0);
    CheckIsFirst(cluster, i, check);
  }
}

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
