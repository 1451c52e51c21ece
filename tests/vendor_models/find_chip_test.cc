// Chips as people name them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "vendor_models/catalogue.h"
#include "vendor_models/chip_file.h"
#include "vendor_models/closest_chips.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

const Catalogue& Shipped() {
  static const absl::StatusOr<Catalogue> catalogue = Catalogue::LoadBuiltIn();
  EXPECT_TRUE(catalogue.ok()) << catalogue.status();
  return *catalogue;
}

struct FindCase {
  const char* name;
  const char* wanted;
  const char* id;  // id of the chip that is found; empty: an error
  absl::StatusCode code;
  const char* reason;
  std::vector<const char*> message_parts;
};

class FindTest : public testing::TestWithParam<FindCase> {};

TEST_P(FindTest, FindsOrExplains) {
  const FindCase& c = GetParam();
  const auto found = Shipped().Find(c.wanted);
  if (*c.id != '\0') {
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ((*found)->spec.id, c.id);
    return;
  }
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), c.code);
  EXPECT_EQ(Reason(found.status()), c.reason);
  for (const char* part : c.message_parts) {
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(part));
  }
}

const FindCase kFindCases[] = {
    {"Id", "nvidia-h100-sxm5-80gb", "nvidia-h100-sxm5-80gb", {}, "", {}},
    {"IdInCapitals", "NVIDIA-H100-SXM5-80GB", "nvidia-h100-sxm5-80gb", {}, "", {}},
    {"Family",
     "a100",
     "",
     absl::StatusCode::kInvalidArgument,
     "AMBIGUOUS_CHIP",
     {"nvidia-a100-pcie-80gb, nvidia-a100-sxm4-40gb, nvidia-a100-sxm4-80gb"}},
    {"FamilyWithTwoForms",
     "NVIDIA H100",
     "",
     absl::StatusCode::kInvalidArgument,
     "AMBIGUOUS_CHIP",
     {"nvidia-h100-pcie-80gb, nvidia-h100-sxm5-80gb"}},
    {"NvidiaSmi", "NVIDIA H100 80GB HBM3", "nvidia-h100-sxm5-80gb", {}, "", {}},
    {"NvidiaSmiPcie", "NVIDIA A100 80GB PCIe", "nvidia-a100-pcie-80gb", {}, "", {}},
    {"KubernetesLabel", "NVIDIA-H100-80GB-HBM3", "nvidia-h100-sxm5-80gb", {}, "", {}},
    {"OtherLabel", "NVIDIA-A100-SXM4-80GB", "nvidia-a100-sxm4-80gb", {}, "", {}},
    {"TeslaLabel", "Tesla-V100-SXM2-32GB", "nvidia-v100-sxm2-32gb", {}, "", {}},
    {"RocmSmi", "AMD Instinct MI300X", "amd-instinct-mi300x", {}, "", {}},
    {"WithoutSeparators", "TPUv5p", "google-tpu-v5p", {}, "", {}},
    {"OtherSeparator", "MTT-S4000", "moore-threads-mtt-s4000", {}, "", {}},
    {"ShortName", "V150", "iluvatar-bi-v150", {}, "", {}},
    {"UnknownOfAFamily",
     "NVIDIA GeForce RTX 4080",
     "",
     absl::StatusCode::kNotFound,
     "UNKNOWN_CHIP",
     {"chip = NVIDIA GeForce RTX 4080; unknown", "known chips of NVIDIA: nvidia-rtx-4090, "}},
    {"UnknownOfAVendor",
     "MTT S3000",
     "",
     absl::StatusCode::kNotFound,
     "UNKNOWN_CHIP",
     {"known chips of Moore Threads: moore-threads-mtt-s4000"}},
    // Nothing is close to it, and no chip of another vendor is guessed.
    {"UnknownWithoutAVendor",
     "GTX 1080 Ti",
     "",
     absl::StatusCode::kNotFound,
     "UNKNOWN_CHIP",
     {"chip = GTX 1080 Ti; unknown. `meshwright chip list` shows the "}},
    // The label of GPU feature discovery with the strategies "single" and time-slicing.
    {"MigSlice",
     "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
     "",
     absl::StatusCode::kInvalidArgument,
     "PARTIAL_DEVICE",
     {"chip = NVIDIA-H100-80GB-HBM3-MIG-1g.10gb; is a MIG slice (1g.10gb), and a plan is made for "
      "whole devices: state nvidia-h100-sxm5-80gb"}},
    {"SharedDevice",
     "Tesla-T4-SHARED",
     "",
     absl::StatusCode::kInvalidArgument,
     "PARTIAL_DEVICE",
     {"is shared by several pods, and a plan is made for whole devices: state nvidia-t4"}},
    {"SliceOfAnUnknownDevice",
     "NVIDIA-A30-MIG-1g.6gb-SHARED",
     "",
     absl::StatusCode::kInvalidArgument,
     "PARTIAL_DEVICE",
     {"is a MIG slice (1g.6gb), and", "state NVIDIA-A30"}},
    {"SlurmAutodetect", "nvidia_h100_80gb_hbm3", "nvidia-h100-sxm5-80gb", {}, "", {}},
    {"NpuSmi", "910B3", "huawei-ascend-910b-313t", {}, "", {}},
    {"TorchNpu", "Ascend910B2C", "huawei-ascend-910b-376t", {}, "", {}},
    {"NpuSmi64GiB", "910B4-1", "huawei-ascend-910b-280t", {}, "", {}},
    // npu-smi prints it for the first 910 and for the 910C.
    {"NpuSmiOfTwoGenerations",
     "Ascend910",
     "",
     absl::StatusCode::kInvalidArgument,
     "AMBIGUOUS_CHIP",
     {"huawei-ascend-910a, huawei-ascend-910c"}},
    {"UnmodelledBin",
     "910B1",
     "",
     absl::StatusCode::kFailedPrecondition,
     "CHIP_NOT_MODELLED",
     {"huawei-ascend-910b1 is known but not modelled: no public figure for memory bandwidth"}},
    {"Alias", "Trillium", "google-tpu-v6e", {}, "", {}},
    {"ChineseAlias", "天垓150", "iluvatar-bi-v150", {}, "", {}},
    {"Name", "instinct mi300x", "amd-instinct-mi300x", {}, "", {}},
    {"Ambiguous",
     "Ascend910B",
     "",
     absl::StatusCode::kInvalidArgument,
     "AMBIGUOUS_CHIP",
     {"huawei-ascend-910b-280t, huawei-ascend-910b-280t-32gb, huawei-ascend-910b-313t, "
      "huawei-ascend-910b-376t"}},
    {"Unknown",
     "nvidia-a100-sxm4-81gb",
     "",
     absl::StatusCode::kNotFound,
     "UNKNOWN_CHIP",
     {"chip = nvidia-a100-sxm4-81gb; unknown. The closest of the ",
      " known chips of NVIDIA: nvidia-a100-sxm4-80gb, ", "`meshwright chip list` shows all"}},
    // All of them are listed, although only three are listed of chips that merely look similar. The
    // 910A and the 910C come first, because they are also named 910.
    {"PartOfManyIds",
     "ascend-91",
     "",
     absl::StatusCode::kNotFound,
     "UNKNOWN_CHIP",
     {"known chips of Huawei: huawei-ascend-910a, huawei-ascend-910c, huawei-ascend-910b-280t, "
      "huawei-ascend-910b-280t-32gb, huawei-ascend-910b-313t, huawei-ascend-910b-376t. "}},
    // The sxm5 shares six letters with it, the pcie four.
    {"MistypedAtTheEnd",
     "nvidia-h100-sxn",
     "",
     absl::StatusCode::kNotFound,
     "UNKNOWN_CHIP",
     {"known chips of NVIDIA: nvidia-h100-sxm5-80gb, nvidia-h100-pcie-80gb, "}},
    {"Empty", "", "", absl::StatusCode::kNotFound, "UNKNOWN_CHIP", {"chip = ; unknown. "}},
    {"Unmodelled",
     "kunlunxin-r300",
     "",
     absl::StatusCode::kFailedPrecondition,
     "CHIP_NOT_MODELLED",
     {"kunlunxin-r300", "memory bandwidth and a bf16 or fp16 peak"}},
    {"UnmodelledAlias",
     "mi350x",
     "",
     absl::StatusCode::kFailedPrecondition,
     "CHIP_NOT_MODELLED",
     {"amd-instinct-mi350x"}},
};

INSTANTIATE_TEST_SUITE_P(All, FindTest, testing::ValuesIn(kFindCases),
                         [](const auto& c) { return c.param.name; });

// The names that people brought in a field test. "A100" is refused with its matches.
TEST(NamesTest, FindsWhatPeopleBring) {
  const auto id = [](const char* name) { return Shipped().Find(name).value()->spec.id; };
  EXPECT_EQ(id("NVIDIA H100 80GB HBM3"), "nvidia-h100-sxm5-80gb");
  EXPECT_EQ(id("NVIDIA-H100-80GB-HBM3"), "nvidia-h100-sxm5-80gb");
  EXPECT_EQ(id("NVIDIA A100-SXM4-80GB"), "nvidia-a100-sxm4-80gb");
  EXPECT_EQ(id("NVIDIA GeForce RTX 4090"), "nvidia-rtx-4090");
  EXPECT_EQ(id("910B3"), "huawei-ascend-910b-313t");
  EXPECT_EQ(Reason(Shipped().Find("A100").status()), "AMBIGUOUS_CHIP");
}

// No name of a chip of one vendor, with one letter mistyped, is answered with another vendor's
// chip.
TEST(NamesTest, AMistypedNameIsAnsweredByItsVendorOnly) {
  int answered = 0;
  for (const ChipEntry& chip : Shipped().chips()) {
    const std::string wanted = chip.spec.id + "q";
    const ClosestChips closest = FindClosestChips(wanted, Shipped().chips());
    EXPECT_EQ(closest.vendor, chip.spec.vendor) << wanted;
    for (const std::string_view id : closest.ids) {
      EXPECT_EQ(Shipped().Find(id).value()->spec.vendor, chip.spec.vendor) << wanted;
    }
    EXPECT_THAT(closest.ids, testing::Contains(chip.spec.id));
    EXPECT_LE(closest.ids.size(), 6u);
    ++answered;
  }
  EXPECT_GT(answered, 50);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
