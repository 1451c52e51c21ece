#include "cli/reports/kinds_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

// Ranges are read as words, and a faster plan says why it is not the first.
TEST(KindsTableTest, PlainWords) {
  v1::TuneResult result;
  v1::RankedPlan& plan = *result.add_plans();
  plan.set_like_count(3);
  for (const auto& [field, values] :
       {std::pair("zero_group_size", "4 or the whole group"),
        std::pair("sequence_parallel", "true or false"), std::pair("unknown", "1 to 2")}) {
    v1::FieldRange& range = *plan.add_like_ranges();
    range.set_field(field);
    range.set_values(values);
  }
  result.add_plans()->set_reason("faster than 1, but fits with only 80 %");
  EXPECT_THAT(LikeLines(result, 160),
              HasSubstr("1: 3 more that cannot be told apart: ZeRO groups of 4 or the whole group; "
                        "with or without sequence parallelism; unknown 1 to 2\n"));
  EXPECT_THAT(KindsTable(result, 250, 2), HasSubstr("faster than 1, but fits with only 80 %"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
