#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "server/convert/convert.h"
#include "server/convert/fill_wire.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/tuner/answers/sweep.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

// The clusters beside the question's own may have at most this number, so that a request ends.
constexpr int kMaxOtherClusters = 20;

// Returns the devices of a node of a cluster; nullopt if its pool or its chip is a mistake.
std::optional<int> DevicesPerNode(const ClusterRequest& cluster, const Knowledge& knowledge) {
  if (cluster.pools.empty()) return std::nullopt;
  const NodePoolRequest& pool = cluster.pools.front();
  if (pool.devices_per_node.has_value()) {
    return *pool.devices_per_node > 0 ? pool.devices_per_node : std::nullopt;
  }
  const auto chip = knowledge.chips.Find(pool.chip);
  return chip.ok() ? std::optional((*chip)->spec.usual_node.device_count) : std::nullopt;
}

// Returns how many nodes of a cluster each number of devices takes, and adds a mistake for each
// that is not a whole number of nodes.
std::vector<int> NodesFor(const MessageReader& in, const ClusterRequest& cluster,
                          std::string_view whose, const Knowledge& knowledge) {
  const std::optional<int> per_node = DevicesPerNode(cluster, knowledge);
  std::vector<int> nodes;
  if (!per_node.has_value()) return nodes;
  const std::vector<int> counts = in.Ints("device_counts");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 1 || counts[i] % *per_node != 0) {
      in.Add(fmt::format("device_counts[{}]", i),
             fmt::format("{}; must be a multiple of the {} devices of a node{}", counts[i],
                         *per_node, whose));
      continue;
    }
    nodes.push_back(counts[i] / *per_node);
  }
  return nodes;
}

// Reads the numbers of nodes that a sweep asks about on one of its clusters.
std::vector<int> ReadNodeCounts(const MessageReader& in, const StudyRequest& question,
                                const ClusterRequest& cluster, std::string_view whose,
                                const Knowledge& knowledge) {
  if (!in.Ints("device_counts").empty()) return NodesFor(in, cluster, whose, knowledge);
  if (std::vector<int> nodes = in.Ints("node_counts"); !nodes.empty()) return nodes;
  const int own = cluster.pools.empty() ? 1 : cluster.pools.front().node_count.value_or(1);
  const bool wants_share = question.run.has_value() && question.run->max_days.has_value();
  return wants_share ? SharesOf(own) : std::vector<int>{own};
}

// Reads a cluster beside the question's own, and adds the mistakes that it has with the question.
ClusterRequest ReadOtherCluster(const MessageReader& in, const MessageReader& sweep, int index,
                                const StudyRequest& question, const Knowledge& knowledge) {
  Question asked = question.question;
  asked.cluster = ReadCluster(in);
  constexpr std::string_view kOwn = "cluster";
  for (FieldViolation& violation : CheckQuestion(asked, knowledge)) {
    if (!violation.field.starts_with(kOwn)) continue;
    sweep.Add(violation.field.replace(0, kOwn.size(), fmt::format("clusters[{}]", index)),
              std::move(violation.description));
  }
  return asked.cluster;
}

}  // namespace

v1::SweepResponse ToWire(const Sweep& sweep) {
  v1::SweepResponse wire;
  for (const SweepPoint& point : sweep.points) {
    v1::SweepPoint& out = *wire.add_points();
    out.set_device_count(point.device_count);
    out.set_free_memory_ratio(point.free_memory_ratio);
    if (point.best) *out.mutable_best() = ToWire(*point.best);
    if (point.launch) *out.mutable_launch() = ToWire(*point.launch);
    out.set_device_seconds_per_token(point.device_seconds_per_token);
    out.set_is_on_front(point.is_on_front);
    out.set_cluster_index(point.cluster_index);
    out.set_cluster_name(point.cluster_name);
    out.set_chip(point.chip);
  }
  FillAppliedDefaults(sweep.applied_defaults, *wire.mutable_applied_defaults());
  wire.mutable_warnings()->Assign(sweep.warnings.begin(), sweep.warnings.end());
  if (sweep.recommended) wire.set_recommended_index(static_cast<int>(*sweep.recommended));
  wire.set_reason(sweep.reason);
  return wire;
}

absl::StatusOr<SweepRange> FromWire(const v1::SweepRequest& request, const StudyRequest& question,
                                    const Knowledge& knowledge) {
  std::vector<FieldViolation> found;
  const MessageReader in(request, "", found);
  SweepRange range;
  if (request.free_memory_ratios_size() > 0) {
    range.free_memory_ratios = {request.free_memory_ratios().begin(),
                                request.free_memory_ratios().end()};
  }
  if (request.node_counts_size() > 0 && request.device_counts_size() > 0) {
    in.Add("device_counts", "stated beside node_counts; must be one of the two");
    return FoundStatus(found);
  }
  if (request.clusters_size() > kMaxOtherClusters) {
    in.Add("clusters", fmt::format("{} clusters; must be at most {}", request.clusters_size(),
                                   kMaxOtherClusters));
    return FoundStatus(found);
  }
  const auto add = [&](ClusterRequest cluster, const std::string& whose) {
    std::vector<int> nodes = ReadNodeCounts(in, question, cluster, whose, knowledge);
    range.clusters.push_back({.cluster = std::move(cluster), .node_counts = std::move(nodes)});
  };
  add(question.question.cluster, "");
  int index = 0;
  for (const MessageReader& cluster : in.Children("clusters")) {
    add(ReadOtherCluster(cluster, in, index, question, knowledge),
        fmt::format(" of clusters[{}]", index));
    ++index;
  }
  RETURN_IF_ERROR(FoundStatus(found));
  return range;
}

}  // namespace meshwright
