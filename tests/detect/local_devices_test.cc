#include "cli/detect/local_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "tests/detect/recorded_tools.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kNvidiaSmi[] =
    "nvidia-smi --query-gpu=name,mig.mode.current,power.limit --format=csv,noheader,nounits";

TEST(LocalDevicesTest, ReadsNvidiaSmi) {
  EXPECT_THAT(ParseNvidiaSmi("NVIDIA H100 80GB HBM3, Disabled, 700.00\n"
                             "NVIDIA GeForce RTX 4090, [N/A], [N/A]\n"),
              ElementsAre(LocalDevice{.name = "NVIDIA H100 80GB HBM3", .power_limit_watts = 700},
                          LocalDevice{.name = "NVIDIA GeForce RTX 4090"}));
  EXPECT_THAT(ParseNvidiaSmi("No devices were found\n"), IsEmpty());
}

// Both spellings of the key are those of rocm-smi, before and since ROCm 6.
TEST(LocalDevicesTest, ReadsRocmSmi) {
  EXPECT_THAT(
      ParseRocmSmi(R"({"card0": {"Card Series": "AMD Instinct MI300X", "Card Model": "0x74a1"},
                       "card1": {"Card series": "AMD Instinct MI300X"},
                       "system": {"Driver version": "6.7.0"}})"),
      ElementsAre(LocalDevice{.name = "AMD Instinct MI300X"},
                  LocalDevice{.name = "AMD Instinct MI300X"}));
  EXPECT_THAT(ParseRocmSmi("ERROR: No AMD GPUs specified"), IsEmpty());
}

// The table of npu-smi 23.0.1 on a machine with two of eight devices.
constexpr char kNpuSmi[] = R"(
+------------------------------------------------------------------------------------------------+
| npu-smi 23.0.1                   Version: 23.0.1                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 4     910B3               | OK            | 93.6        40                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          3161 / 65536         |
+===========================+===============+====================================================+
| 5     910B3               | Warning       | 90.0        38                0    / 0             |
| 0                         | 0000:81:00.0  | 0           0    / 0          3160 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 4       0                 | 1712733       | python                   | 120                     |
| No running processes found in NPU 5                                                            |
+===========================+===============+====================================================+
)";

TEST(LocalDevicesTest, ReadsNpuSmi) {
  EXPECT_THAT(ParseNpuSmi(kNpuSmi),
              ElementsAre(LocalDevice{.name = "910B3"}, LocalDevice{.name = "910B3"}));
}

// `lspci -mm` of pciutils: the screen of the server and its adapter are no accelerators.
TEST(LocalDevicesTest, ReadsLspci) {
  EXPECT_THAT(
      ParseLspci(
          R"(03:00.0 "VGA compatible controller" "ASPEED Technology, Inc." "ASPEED Graphics Family" -r41
17:00.0 "Infiniband controller" "Mellanox Technologies" "MT2910 Family [ConnectX-7]"
18:00.0 "3D controller" "NVIDIA Corporation" "GH100 [H100 SXM5 80GB]" -ra1 "NVIDIA Corporation" "Device 16c1"
19:00.0 "VGA compatible controller" "NVIDIA Corporation" "AD102 [GeForce RTX 4090]" -ra1 "" ""
1a:00.0 "Processing accelerators" "Huawei Technologies Co., Ltd." "Device d802" -r20 "" "")"),
      ElementsAre(LocalDevice{.name = "H100 SXM5 80GB"}, LocalDevice{.name = "GeForce RTX 4090"},
                  LocalDevice{.name = "Device d802"}));
}

class LocalMachineTest : public testing::Test {
 protected:
  void WriteAdapter(const std::string& name, const std::string& state, const std::string& rate,
                    const std::string& layer) const {
    const std::string port = "infiniband/" + name + "/ports/1/";
    folder_.Write(port + "state", state + "\n");
    folder_.Write(port + "rate", rate + "\n");
    folder_.Write(port + "link_layer", layer + "\n");
  }
  [[nodiscard]] LocalPlaces Places() const {
    return {.adapters = folder_.File("infiniband"), .memory = folder_.File("meminfo")};
  }

  const TemporaryFolder folder_;
};

// Two adapters of 400 Gbit/s carry more than the one of 100 for the file system.
TEST_F(LocalMachineTest, ReadsTheAdaptersThatCarryTheMost) {
  WriteAdapter("mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand");
  WriteAdapter("mlx5_1", "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand");
  WriteAdapter("mlx5_2", "1: DOWN", "400 Gb/sec (4X NDR)", "InfiniBand");
  WriteAdapter("mlx5_3", "4: ACTIVE", "100 Gb/sec (4X EDR)", "Ethernet");
  EXPECT_EQ(ReadAdapters(Places().adapters),
            (InterNodeRequest{
                .kind = LinkKind::kInfiniband, .nic_count = 2, .nic_gigabits_per_second = 400}));
  EXPECT_EQ(ReadAdapters(folder_.File("absent")), InterNodeRequest());
}

TEST_F(LocalMachineTest, IsOneNodeOfACluster) {
  folder_.Write("meminfo", "MemTotal:       2113407460 kB\nMemFree: 1 kB\n");
  WriteAdapter("mlx5_0", "4: ACTIVE", "200 Gb/sec (4X HDR)", "Ethernet");
  const auto found = DetectLocal(
      {},
      Recorded({{kNvidiaSmi, "NVIDIA H200, Disabled, 700.00\nNVIDIA H200, Disabled, 700.00\n"}}),
      Places());
  ASSERT_TRUE(found.ok()) << found.status();
  const NodePoolRequest& pool = found->cluster.pools.front();
  EXPECT_EQ(pool.chip, "NVIDIA H200");
  EXPECT_EQ(pool.node_count, 1);
  EXPECT_EQ(pool.devices_per_node, 2);
  EXPECT_EQ(pool.power_limit_watts, 700);
  EXPECT_EQ(pool.inter_node.kind, LinkKind::kRoce);
  EXPECT_EQ(pool.host.memory, Bytes{std::int64_t{2113407460} << 10});
  EXPECT_THAT(found->notes, ElementsAre("nvidia-smi found 2 x NVIDIA H200 on this machine."));
}

// A tool that is installed and finds nothing does not hide the devices of another vendor.
TEST_F(LocalMachineTest, AsksTheToolsOneAfterTheOther) {
  const auto found = DetectLocal(
      {}, Recorded({{kNvidiaSmi, "No devices were found\n"}, {"npu-smi info", kNpuSmi}}), Places());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->cluster.pools.front().chip, "910B3");
  EXPECT_EQ(found->cluster.pools.front().devices_per_node, 2);
}

// Names come from drivers and go to a terminal.
TEST_F(LocalMachineTest, CleansWhatToolsPrint) {
  const auto cluster =
      DetectLocal({}, Recorded({{kNvidiaSmi, "H100\x1b[2J\xff, Disabled, 700.00\n"}}), Places());
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->cluster.pools.front().chip, "H100 [2J?");
}

TEST_F(LocalMachineTest, SaysInOneSentenceThatThereIsNone) {
  EXPECT_EQ(DetectLocal({}, Recorded({}), Places()).status().message(),
            "no accelerator was found on this machine (not installed: nvidia-smi, rocm-smi, "
            "npu-smi, lspci); must be stated by --chip and --nodes");
  EXPECT_EQ(DetectLocal({}, Recorded({{kNvidiaSmi, "No devices were found\n"}}), Places())
                .status()
                .message(),
            "no accelerator was found on this machine (not installed: rocm-smi, npu-smi, lspci; "
            "without a device: nvidia-smi); must be stated by --chip and --nodes");
}

TEST_F(LocalMachineTest, RefusesSlicesAndDifferentDevices) {
  const auto refusal = [&](const std::string& output) {
    return std::string(
        DetectLocal({}, Recorded({{kNvidiaSmi, output}}), Places()).status().message());
  };
  EXPECT_THAT(refusal("NVIDIA H100 80GB HBM3, Enabled, 700.00\n"),
              HasSubstr("NVIDIA H100 80GB HBM3 is divided into MIG slices"));
  EXPECT_THAT(refusal("NVIDIA A10, [N/A], 150.00\nNVIDIA L40, [N/A], 300.00\n"),
              HasSubstr("different devices: 1 x NVIDIA A10, 1 x NVIDIA L40; must be stated"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
