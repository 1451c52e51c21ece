#include "cli/detect/kubernetes_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "search_space/base/units.h"
#include "tests/detect/recorded_tools.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

// A node as the API server describes it, with the labels of GPU feature discovery.
std::string Node(const std::string& name, const std::string& labels, const std::string& resources,
                 const std::string& ready = "True", const std::string& spec = "{}") {
  return R"({"kind": "Node", "metadata": {"name": ")" + name + R"(", "labels": {)" + labels +
         R"(}}, "spec": )" + spec + R"(, "status": {"allocatable": {"cpu": "192", )" + resources +
         R"(}, "capacity": {"memory": "2113407460Ki"}, "conditions": [
            {"type": "MemoryPressure", "status": "False"},
            {"type": "Ready", "status": ")" +
         ready + R"("}]}})";
}

std::string List(const std::vector<std::string>& nodes) {
  std::string items;
  for (const std::string& node : nodes) items += (items.empty() ? "" : ", ") + node;
  return R"({"kind": "List", "items": [)" + items + "]}";
}

constexpr char kH100[] =
    R"("nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8")";
constexpr char kEightGpus[] = R"("nvidia.com/gpu": "8")";

CommandRunner Kubectl(const std::vector<std::string>& nodes) {
  return Recorded({{"kubectl get nodes --output=json", List(nodes)}});
}

TEST(KubernetesNodesTest, ReadsANode) {
  const auto nodes = ParseKubernetesNodes(List({Node("a", kH100, kEightGpus)}));
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_THAT(*nodes,
              ElementsAre(KubernetesNode{.name = "a",
                                         .kind = {.chip = "NVIDIA-H100-80GB-HBM3", .devices = 8},
                                         .memory = Bytes{std::int64_t{2113407460} << 10}}));
}

struct Plugin {
  const char* name;
  const char* labels;
  const char* resources;
  NodeKind kind;
};

class PluginTest : public testing::TestWithParam<Plugin> {};

TEST_P(PluginTest, NamesItsChip) {
  const Plugin& c = GetParam();
  const auto nodes = ParseKubernetesNodes(List({Node("a", c.labels, c.resources)}));
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_EQ(nodes->front().kind, c.kind);
}

const Plugin kPlugins[] = {
    {"Amd",
     R"("amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM")",
     R"("amd.com/gpu": "8")",
     {.chip = "AMD_Instinct_MI300X_OAM", .devices = 8}},
    {"Ascend",
     R"("accelerator": "huawei-Ascend910", "node.kubernetes.io/npu.chip.name": "910B3")",
     R"("huawei.com/Ascend910": "8")",
     {.chip = "910B3", .devices = 8}},
    {"Gke",
     R"("cloud.google.com/gke-accelerator": "nvidia-l4")",
     R"("nvidia.com/gpu": "2")",
     {.chip = "nvidia-l4", .devices = 2}},
    {"None", R"("node-role.kubernetes.io/control-plane": "")", R"("nvidia.com/gpu": "0")", {}},
};

INSTANTIATE_TEST_SUITE_P(All, PluginTest, testing::ValuesIn(kPlugins),
                         [](const auto& c) { return c.param.name; });

TEST(KubernetesNodesTest, FindsEqualNodesAndSaysWhatItLeavesOut) {
  const auto found = DetectKubernetes(
      "", {},
      Kubectl({Node("a", kH100, kEightGpus), Node("b", kH100, kEightGpus),
               Node("c", kH100, kEightGpus, "Unknown"),
               Node("d", kH100, kEightGpus, "True", R"({"unschedulable": true})"),
               Node("e", kH100, R"("nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "56")"),
               Node("f", "", R"("memory": "1Gi")")}));
  ASSERT_TRUE(found.ok()) << found.status();
  const NodePoolRequest& pool = found->cluster.pools.front();
  EXPECT_EQ(pool.chip, "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(pool.node_count, 2);
  EXPECT_EQ(pool.devices_per_node, 8);
  EXPECT_EQ(pool.host.memory, Bytes{std::int64_t{2113407460} << 10});
  EXPECT_THAT(found->notes,
              ElementsAre("Kubernetes has 2 usable nodes of 8 x NVIDIA-H100-80GB-HBM3.",
                          "Left out: c, d (cordoned, or not ready), e (only MIG slices)."));
}

TEST(KubernetesNodesTest, AsksForOneKind) {
  const absl::Status status =
      DetectKubernetes(
          "", {},
          Kubectl({Node("a", kH100, kEightGpus),
                   Node("b", R"("nvidia.com/gpu.product": "NVIDIA-H200")", kEightGpus)}))
          .status();
  EXPECT_EQ(status.message(),
            "Kubernetes has several kinds of nodes: 1 nodes of 8 x NVIDIA-H100-80GB-HBM3; 1 nodes "
            "of 8 x NVIDIA-H200. Choose one by a label, as in --cluster "
            "kubernetes:nvidia.com/gpu.product=NVIDIA-H200");
}

TEST(KubernetesNodesTest, PassesTheSelectorOn) {
  const auto found =
      DetectKubernetes("pool=train", {},
                       Recorded({{"kubectl get nodes --output=json --selector=pool=train",
                                  List({Node("a", kH100, kEightGpus)})}}));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->cluster.name, "Kubernetes pool=train");
}

TEST(KubernetesNodesTest, SaysWhatIsMissing) {
  EXPECT_EQ(DetectKubernetes("", {}, Recorded({})).status().message(),
            "kubectl is not installed on this machine");
  EXPECT_EQ(
      DetectKubernetes("", {}, Kubectl({Node("a", "", R"("memory": "1Gi")")})).status().message(),
      "Kubernetes has no usable node with whole devices of a known device plugin");
  EXPECT_THAT(
      std::string(
          DetectKubernetes("", {}, Kubectl({Node("a", "", kEightGpus)})).status().message()),
      HasSubstr("no label says the chip of the 8 devices a node"));
  EXPECT_TRUE(DetectKubernetes("", {.has_chip = true}, Kubectl({Node("a", "", kEightGpus)})).ok());
  EXPECT_EQ(ParseKubernetesNodes("<html>").status().message(), "kubectl printed no list of nodes");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
