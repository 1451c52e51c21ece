#include "cli/detect/slurm_nodes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan_fields.h"
#include "server/launchers/slurm/slurm_jobs.h"

namespace meshwright {
namespace {

// The names that sites give to accelerators as generic resources. Sites choose them; gres.conf(5)
// itself knows "gpu".
constexpr std::string_view kDeviceNames[] = {"gpu", "npu", "mlu", "xpu",
                                             "dcu", "gcu", "hpu", "tpu"};

// The states and flags of scontrol(1) in which no job starts on a node until somebody acts.
constexpr std::string_view kUnusable[] = {"DOWN",  "DRAIN",   "DRAINED",       "DRAINING",
                                          "ERROR", "FAIL",    "FAILING",       "FUTURE",
                                          "INVAL", "UNKNOWN", "NOT_RESPONDING"};

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// Returns the value of `key` in a line of "Key=Value" texts. Some values hold blanks, but none of
// those that are asked for.
std::string_view ValueOf(std::string_view line, std::string_view key) {
  for (const std::string_view part : Split(line, ' ')) {
    if (part.starts_with(key) && part.substr(key.size()).starts_with('=')) {
      return part.substr(key.size() + 1);
    }
  }
  return {};
}

std::optional<std::int64_t> NumberIn(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(value) : std::nullopt;
}

// Removes the sockets in "gpu:h100:8(S:0-1)", which may hold commas.
std::string WithoutParentheses(std::string_view text) {
  std::string kept;
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (depth == 0) kept += c;
    if (c == ')' && depth > 0) --depth;
  }
  return kept;
}

// Parses "gpu:h100:8(S:0-1),nic:2": the accelerators of a node.
std::vector<NodeKind> ParseGres(std::string_view text) {
  std::vector<NodeKind> devices;
  const std::string plain = WithoutParentheses(text);
  for (const std::string_view resource : Split(plain, ',')) {
    const std::vector<std::string_view> parts = Split(resource, ':');
    if (parts.empty() || !std::ranges::count(kDeviceNames, parts.front())) continue;
    const std::optional<std::int64_t> count = NumberIn(parts.back());
    if (!count.has_value() || *count < 1 || *count > kLargestSize) continue;
    const bool has_type = parts.size() > 2;
    devices.push_back(
        {.chip = has_type ? std::string(parts[1]) : "", .devices = static_cast<int>(*count)});
  }
  return devices;
}

// Returns the states without the letters that scontrol puts behind them ("DOWN*", "IDLE~").
std::vector<std::string_view> StatesOf(std::string_view state) {
  std::vector<std::string_view> states = Split(state, '+');
  for (std::string_view& word : states) {
    const std::size_t end = word.find_last_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    word = word.substr(0, end == word.npos ? 0 : end + 1);
  }
  return states;
}

// The nodes that were asked for, by kind, and those that are left out. Points into the list that
// was selected from.
struct SlurmSelection {
  std::map<NodeKind, std::vector<const SlurmNode*>> nodes = {};
  std::vector<std::string> unusable = {};
  std::set<std::string> mixed = {};  // nodes with several types of devices
};

SlurmSelection Select(const std::vector<SlurmNode>& nodes, const std::string& partition) {
  SlurmSelection selection;
  for (const SlurmNode& node : nodes) {
    if (!partition.empty() && !std::ranges::count(node.partitions, partition)) continue;
    if (!IsUsable(node)) {
      selection.unusable.push_back(fmt::format("{} ({})", node.name, node.state));
    } else if (node.devices.size() > 1) {
      selection.mixed.insert(node.name);
    } else {
      const NodeKind kind = node.devices.empty() ? NodeKind() : node.devices.front();
      selection.nodes[kind].push_back(&node);
    }
  }
  // Nodes for logging in, or for work without devices, are no part of a training cluster.
  if (selection.nodes.size() > 1) selection.nodes.erase(NodeKind());
  return selection;
}

std::string KindsText(const SlurmSelection& selection) {
  std::vector<std::string> kinds;
  for (const auto& [kind, nodes] : selection.nodes) {
    std::set<std::string> partitions;
    for (const SlurmNode* node : nodes) {
      partitions.insert(node->partitions.begin(), node->partitions.end());
    }
    kinds.push_back(fmt::format("{} nodes of {} in {}", nodes.size(), KindText(kind),
                                fmt::join(partitions, ", ")));
  }
  return fmt::format("{}", fmt::join(kinds, "; "));
}

absl::Status CheckSelection(const SlurmSelection& selection, const std::string& partition,
                            const StatedFacts& stated) {
  const std::string where = partition.empty() ? "Slurm" : "partition " + partition;
  if (!selection.mixed.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{} has nodes with several types of devices ({}); must have equal devices in a node", where,
        fmt::join(selection.mixed, ", ")));
  }
  if (selection.nodes.empty()) {
    return absl::NotFoundError(
        fmt::format("{} has no node on which jobs can run{}", where,
                    selection.unusable.empty()
                        ? ""
                        : fmt::format("; left out: {}", fmt::join(selection.unusable, ", "))));
  }
  if (selection.nodes.size() > 1) {
    return absl::InvalidArgumentError(
        fmt::format("{} has several kinds of nodes: {}. Name a partition of one kind, as in "
                    "--cluster slurm:PARTITION",
                    where, KindsText(selection)));
  }
  const NodeKind& kind = selection.nodes.begin()->first;
  if (kind.devices == 0 && !(stated.has_chip && stated.has_device_count)) {
    return absl::NotFoundError(fmt::format(
        "{} has {} nodes without accelerators (gres such as gpu:h100:8); must be stated "
        "by --chip and --devices-per-node",
        where, selection.nodes.begin()->second.size()));
  }
  if (kind.chip.empty() && !stated.has_chip) {
    return absl::InvalidArgumentError(fmt::format(
        "{} does not say the type of its {} devices a node (gres without a type); must be stated "
        "by --chip",
        where, kind.devices));
  }
  return absl::OkStatus();
}

// Returns the nodes below the smallest leaf switch, or nullopt if Slurm does not know the switch of
// each node.
std::optional<int> NodesPerLeaf(const std::vector<SlurmSwitch>& switches,
                                const std::vector<const SlurmNode*>& nodes) {
  std::optional<int> least;
  std::size_t counted = 0;
  for (const SlurmSwitch& leaf : switches) {
    const auto count = std::ranges::count_if(nodes, [&](const SlurmNode* node) {
      return std::ranges::count(leaf.nodes, node->name) > 0;
    });
    if (count == 0) continue;
    counted += static_cast<std::size_t>(count);
    least = std::min(least.value_or(static_cast<int>(count)), static_cast<int>(count));
  }
  return counted == nodes.size() ? least : std::nullopt;
}

}  // namespace

std::vector<SlurmNode> ParseSlurmNodes(std::string_view text) {
  std::vector<SlurmNode> nodes;
  for (const std::string_view line : Split(text, '\n')) {
    SlurmNode node = {.name = std::string(ValueOf(line, "NodeName")),
                      .state = std::string(ValueOf(line, "State")),
                      .devices = ParseGres(ValueOf(line, "Gres"))};
    if (node.name.empty()) continue;
    for (const std::string_view partition : Split(ValueOf(line, "Partitions"), ',')) {
      node.partitions.emplace_back(partition);
    }
    // scontrol(1): RealMemory is in mebibytes.
    node.memory = {NumberIn(ValueOf(line, "RealMemory")).value_or(0) << 20};
    nodes.push_back(std::move(node));
  }
  return nodes;
}

bool IsUsable(const SlurmNode& node) {
  return std::ranges::none_of(StatesOf(node.state), [](std::string_view state) {
    return std::ranges::count(kUnusable, state) > 0;
  });
}

std::vector<SlurmSwitch> ParseSlurmTopology(std::string_view text) {
  std::vector<SlurmSwitch> leaves;
  for (const std::string_view line : Split(text, '\n')) {
    if (ValueOf(line, "Level") != "0") continue;
    leaves.push_back({.name = std::string(ValueOf(line, "SwitchName")),
                      .nodes = NodeNames(ValueOf(line, "Nodes"))});
  }
  return leaves;
}

absl::StatusOr<DetectedCluster> DetectSlurm(const std::string& partition, const StatedFacts& stated,
                                            const CommandRunner& run) {
  ASSIGN_OR_RETURN(const std::string text, Ask({"scontrol", "--oneliner", "show", "node"}, run));
  ASSIGN_OR_RETURN(const std::string topology, Ask({"scontrol", "show", "topology"}, run));
  const std::vector<SlurmNode> all = ParseSlurmNodes(text);
  const SlurmSelection selection = Select(all, partition);
  RETURN_IF_ERROR(CheckSelection(selection, partition, stated));
  const auto& [kind, nodes] = *selection.nodes.begin();
  NodePoolRequest pool = {.chip = kind.chip, .node_count = static_cast<int>(nodes.size())};
  if (kind.devices > 0) pool.devices_per_node = kind.devices;
  const auto least =
      std::ranges::min_element(nodes, {}, [](const SlurmNode* node) { return node->memory.count; });
  if ((*least)->memory.count > 0) pool.host.memory = (*least)->memory;
  DetectedCluster found;
  found.cluster = {.name = partition.empty() ? "nodes of Slurm" : "Slurm partition " + partition,
                   .pools = {pool}};
  found.cluster.topology.nodes_per_segment = NodesPerLeaf(ParseSlurmTopology(topology), nodes);
  found.notes.push_back(fmt::format("Slurm has {} nodes of {}{}.", nodes.size(), KindText(kind),
                                    partition.empty() ? "" : " in partition " + partition));
  if (!selection.unusable.empty()) {
    found.notes.push_back(fmt::format("Left out, since no job can start there: {}.",
                                      fmt::join(selection.unusable, ", ")));
  }
  return found;
}

}  // namespace meshwright
