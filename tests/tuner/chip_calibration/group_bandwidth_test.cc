#include "server/tuner/chip_calibration/group_bandwidth.h"

#include <gtest/gtest.h>

#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

ChipSpec Chip(const std::string& id) { return (*Known().chips.Find(id))->spec; }

// 8 devices, each with a link of 28 GB/s to each other: a pair has one of the seven.
TEST(GroupBandwidthTest, GroupsOfAMeshHaveTheLinksBetweenThem) {
  const std::vector<GroupBandwidth> groups = GroupBandwidths(Chip("huawei-ascend-910b-313t"));
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].ranks, 2);
  EXPECT_EQ(groups[1].ranks, 4);
  EXPECT_EQ(groups[2].ranks, 8);
  EXPECT_NEAR(groups[2].all_reduce.rate / groups[0].all_reduce.rate, 7, 0.4);
  EXPECT_NEAR(groups[0].all_reduce.rate, 18.5e9, 0.5e9);  // as measured by FlagPerf
}

// Measured at 8 ranks: 445 and 315 GB/s at 512 MiB.
TEST(GroupBandwidthTest, MeasuredCurvesShow) {
  const GroupBandwidth eight = GroupBandwidths(Chip("nvidia-h100-sxm5-80gb")).back();
  EXPECT_EQ(eight.ranks, 8);
  EXPECT_NEAR(eight.all_reduce.rate, 460e9, 20e9);
  EXPECT_NEAR(eight.all_to_all.rate, 325e9, 20e9);
}

// Curves of 2 and 4 ranks were measured.
TEST(GroupBandwidthTest, ARackIsOneDomain) {
  const std::vector<GroupBandwidth> groups = GroupBandwidths(Chip("nvidia-gb200-nvl72"));
  EXPECT_EQ(groups.front().provenance, Provenance::kFitted);
  EXPECT_EQ(groups.back().ranks, 72);
  EXPECT_EQ(groups.back().provenance, Provenance::kAssumed);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
