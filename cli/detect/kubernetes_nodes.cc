#include "cli/detect/kubernetes_nodes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

// A resource of a device plugin, and the label in which a vendor's labeller names the chip.
struct DeviceResource {
  std::string_view resource;
  std::string_view label;
};
// From the pages of NVIDIA's GPU feature discovery, AMD's node labeller, Huawei's MindCluster (the
// ModelArts plugin calls its resource ascend-1980) and Google's GKE, whose label stands in where
// NVIDIA's is missing.
constexpr DeviceResource kResources[] = {
    {"nvidia.com/gpu", "nvidia.com/gpu.product"},
    {"nvidia.com/gpu", "cloud.google.com/gke-accelerator"},
    {"amd.com/gpu", "amd.com/gpu.product-name"},
    {"huawei.com/Ascend910", "node.kubernetes.io/npu.chip.name"},
    {"huawei.com/ascend-1980", "node.kubernetes.io/npu.chip.name"},
    {"google.com/tpu", "cloud.google.com/gke-tpu-accelerator"},
};
constexpr std::string_view kSlices = "nvidia.com/mig-";

// The suffixes of a quantity of memory, as in "1056270128Ki" (Kubernetes, "Quantity").
struct MemoryUnit {
  std::string_view suffix;
  std::int64_t bytes;
};
constexpr MemoryUnit kUnits[] = {{"Ki", std::int64_t{1} << 10},
                                 {"Mi", std::int64_t{1} << 20},
                                 {"Gi", std::int64_t{1} << 30},
                                 {"Ti", std::int64_t{1} << 40},
                                 {"", 1}};

std::string TextAt(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Json ObjectAt(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : Json::object();
}

std::int64_t CountAt(const Json& object, const std::string& key) {
  const std::string text = TextAt(object, key);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

Bytes MemoryIn(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return {};
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const MemoryUnit& unit : kUnits) {
    if (unit.suffix == suffix && value <= INT64_MAX / unit.bytes) return {value * unit.bytes};
  }
  return {};
}

bool IsReady(const Json& status) {
  const auto conditions = status.find("conditions");
  if (conditions == status.end() || !conditions->is_array()) return false;
  return std::ranges::any_of(*conditions, [](const Json& condition) {
    return condition.is_object() && TextAt(condition, "type") == "Ready" &&
           TextAt(condition, "status") == "True";
  });
}

KubernetesNode ReadNode(const Json& object) {
  const Json metadata = ObjectAt(object, "metadata");
  const Json labels = ObjectAt(metadata, "labels");
  const Json status = ObjectAt(object, "status");
  const Json allocatable = ObjectAt(status, "allocatable");
  KubernetesNode node = {.name = TextAt(metadata, "name")};
  for (const DeviceResource& row : kResources) {
    const std::int64_t count = CountAt(allocatable, std::string(row.resource));
    if (count == 0 || !node.kind.chip.empty()) continue;
    node.kind = {.chip = TextAt(labels, std::string(row.label)),
                 .devices = static_cast<int>(count)};
  }
  for (const auto& [resource, quantity] : allocatable.items()) {
    if (resource.starts_with(kSlices) && quantity != "0") node.has_slices = true;
  }
  node.memory = MemoryIn(TextAt(ObjectAt(status, "capacity"), "memory"));
  const Json spec = ObjectAt(object, "spec");
  const auto cordoned = spec.find("unschedulable");
  node.is_usable =
      IsReady(status) && !(cordoned != spec.end() && cordoned->is_boolean() && *cordoned);
  return node;
}

// The nodes by kind, and those that are left out. Points into the list that was selected from.
struct KubernetesSelection {
  std::map<NodeKind, std::vector<const KubernetesNode*>> nodes = {};
  std::vector<std::string> unusable = {};
  std::vector<std::string> sliced = {};
};

KubernetesSelection Select(const std::vector<KubernetesNode>& nodes) {
  KubernetesSelection selection;
  for (const KubernetesNode& node : nodes) {
    if (node.kind.devices == 0) {
      if (node.has_slices) selection.sliced.push_back(node.name);
    } else if (!node.is_usable) {
      selection.unusable.push_back(node.name);
    } else {
      selection.nodes[node.kind].push_back(&node);
    }
  }
  return selection;
}

std::string LeftOut(const KubernetesSelection& selection) {
  std::vector<std::string> parts;
  if (!selection.unusable.empty()) {
    parts.push_back(
        fmt::format("{} (cordoned, or not ready)", fmt::join(selection.unusable, ", ")));
  }
  if (!selection.sliced.empty()) {
    parts.push_back(fmt::format("{} (only MIG slices)", fmt::join(selection.sliced, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

absl::Status CheckSelection(const KubernetesSelection& selection, const StatedFacts& stated) {
  const std::string left_out = LeftOut(selection);
  if (selection.nodes.empty()) {
    return absl::NotFoundError(
        fmt::format("Kubernetes has no usable node with whole devices of a known device plugin{}",
                    left_out.empty() ? "" : "; left out: " + left_out));
  }
  if (selection.nodes.size() > 1) {
    std::vector<std::string> kinds;
    for (const auto& [kind, nodes] : selection.nodes) {
      kinds.push_back(fmt::format("{} nodes of {}", nodes.size(), KindText(kind)));
    }
    return absl::InvalidArgumentError(
        fmt::format("Kubernetes has several kinds of nodes: {}. Choose one by a label, as in "
                    "--cluster kubernetes:nvidia.com/gpu.product=NVIDIA-H200",
                    fmt::join(kinds, "; ")));
  }
  const NodeKind& kind = selection.nodes.begin()->first;
  if (kind.chip.empty() && !stated.has_chip) {
    return absl::InvalidArgumentError(fmt::format(
        "no label says the chip of the {} devices a node (as nvidia.com/gpu.product does); must be "
        "stated by --chip",
        kind.devices));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<KubernetesNode>> ParseKubernetesNodes(const std::string& text) {
  const Json list = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!list.is_object() || !list.contains("items") || !list["items"].is_array()) {
    return absl::InvalidArgumentError("kubectl printed no list of nodes");
  }
  std::vector<KubernetesNode> nodes;
  for (const Json& item : list["items"]) {
    if (item.is_object()) nodes.push_back(ReadNode(item));
  }
  return nodes;
}

absl::StatusOr<DetectedCluster> DetectKubernetes(const std::string& selector,
                                                 const StatedFacts& stated,
                                                 const CommandRunner& run) {
  std::vector<std::string> command = {"kubectl", "get", "nodes", "--output=json"};
  if (!selector.empty()) command.push_back("--selector=" + selector);
  ASSIGN_OR_RETURN(const std::string text, Ask(command, run));
  ASSIGN_OR_RETURN(const std::vector<KubernetesNode> all, ParseKubernetesNodes(text));
  const KubernetesSelection selection = Select(all);
  RETURN_IF_ERROR(CheckSelection(selection, stated));
  const auto& [kind, nodes] = *selection.nodes.begin();
  NodePoolRequest pool = {.chip = kind.chip,
                          .node_count = static_cast<int>(nodes.size()),
                          .devices_per_node = kind.devices};
  const auto least = std::ranges::min_element(
      nodes, {}, [](const KubernetesNode* node) { return node->memory.count; });
  if ((*least)->memory.count > 0) pool.host.memory = (*least)->memory;
  DetectedCluster found;
  found.cluster = {.name = selector.empty() ? "nodes of Kubernetes" : "Kubernetes " + selector,
                   .pools = {pool}};
  found.notes.push_back(
      fmt::format("Kubernetes has {} usable nodes of {}.", nodes.size(), KindText(kind)));
  if (const std::string left_out = LeftOut(selection); !left_out.empty()) {
    found.notes.push_back(fmt::format("Left out: {}.", left_out));
  }
  return found;
}

}  // namespace meshwright
