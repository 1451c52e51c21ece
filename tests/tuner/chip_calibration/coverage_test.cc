#include "server/tuner/chip_calibration/coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<OperatorCoverage> Coverage(const std::string& chip) {
  return CoverageOf(**Known().chips.Find(chip));
}

// Returns the only row of an operator with a detail.
OperatorCoverage Row(const std::vector<OperatorCoverage>& rows, std::string_view name,
                     std::string_view detail) {
  const auto is_it = [&](const OperatorCoverage& row) {
    return row.name == name && row.detail == detail;
  };
  EXPECT_EQ(std::ranges::count_if(rows, is_it), 1) << name << " " << detail;
  const auto found = std::ranges::find_if(rows, is_it);
  return found == rows.end() ? OperatorCoverage() : *found;
}

// Its file has one product in fp8, of 8192^3, and curves of 21 messages from 512 bytes to 512 MiB.
TEST(CoverageTest, PointsHaveTheirSizes) {
  const auto rows = Coverage("nvidia-h100-sxm5-80gb");
  const OperatorCoverage fp8 = Row(rows, "gemm", "fp8");
  EXPECT_EQ(fp8.size_unit, "flops");
  EXPECT_THAT(fp8.sizes, ElementsAre(1099511627776.0));  // 2 * 8192^3
  EXPECT_THAT(Row(rows, "gemm", "bf16").sizes, SizeIs(337));
  const OperatorCoverage reduce = Row(rows, "all_reduce", "8 ranks");
  EXPECT_EQ(reduce.size_unit, "bytes");
  EXPECT_THAT(reduce.sizes, SizeIs(21));
  EXPECT_EQ(reduce.sizes.front(), 512);
  EXPECT_EQ(reduce.sizes.back(), 512 << 20);
  EXPECT_EQ(reduce.provenance, Provenance::kFitted);
}

// A form has figures, and no points in the file.
TEST(CoverageTest, FormsRestOnTheirFigure) {
  const auto rows = Coverage("nvidia-h100-sxm5-80gb");
  EXPECT_EQ(Row(rows, "gemm", "").provenance, Provenance::kFitted);
  EXPECT_EQ(Row(rows, "memory-bound", "").provenance, Provenance::kTransferred);
  const OperatorCoverage overlap = Row(rows, "overlap", "");
  EXPECT_EQ(overlap.provenance, Provenance::kAssumed);
  EXPECT_EQ(overlap.source, kClassDefault);
  EXPECT_THAT(overlap.sizes, IsEmpty());
  EXPECT_EQ(overlap.size_unit, "");
}

// Nobody has published collectives of this chip. Its links were published.
TEST(CoverageTest, CollectivesWithoutARowAreAssumed) {
  const auto rows = Coverage("huawei-ascend-910b-313t");
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}) {
    const OperatorCoverage row = Row(rows, name, "");
    EXPECT_EQ(row.provenance, Provenance::kAssumed);
    EXPECT_EQ(row.source, "by scale_up_bandwidth_bytes_per_second of the links");
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
