#include "search_space/base/units.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(UnitsTest, Bytes) {
  EXPECT_EQ(Bytes{3} + Bytes{4}, Bytes{7});
  EXPECT_EQ(Bytes{3} - Bytes{4}, Bytes{-1});
  EXPECT_EQ(Bytes{3} * 4, Bytes{12});
  EXPECT_EQ(Bytes{3} / Bytes{4}, 0.75);
  EXPECT_EQ(Scale(Bytes{10}, 0.25), Bytes{3});  // 2.5; halves are rounded away from zero
  EXPECT_EQ(RoundedBytes(2.4), Bytes{2});
  EXPECT_EQ(GiB(1.5), Bytes{1'610'612'736});  // 1.5 x 2^30
  Bytes sum = {1};
  EXPECT_EQ(sum += Bytes{2}, Bytes{3});
}

TEST(UnitsTest, Rates) {
  // 80 GB at 2 TB/s; 312 TFLOP at 156 TFLOP/s.
  EXPECT_DOUBLE_EQ((Bytes{80'000'000'000} / BytesPerSecond{2e12}).count(), 0.04);
  EXPECT_DOUBLE_EQ((Flops{312e12} / FlopsPerSecond{156e12}).count(), 2.0);
  EXPECT_EQ(BytesPerSecond{2e12} * 0.5, BytesPerSecond{1e12});
  EXPECT_EQ(FlopsPerSecond{2e12} * 0.5, FlopsPerSecond{1e12});
  EXPECT_EQ(Flops{2} * 3, Flops{6});
  Flops sum = Flops{1} + Flops{2};
  EXPECT_EQ(sum += Flops{3}, Flops{6});
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
