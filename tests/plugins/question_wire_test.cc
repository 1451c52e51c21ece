#include "server/plugins/wire/question_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

namespace wire = costmodel::v1;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

wire::EstimateBatchResponse WithLines(int count, const std::string& name) {
  wire::EstimateBatchResponse response;
  response.add_step_time_seconds(1);
  for (int i = 0; i < count; ++i) {
    response.add_breakdown_names(name);
    response.add_breakdown_seconds(1.0 / count);
  }
  return response;
}

TEST(QuestionWireTest, ABreakdownIsKeptWhereItWasAskedFor) {
  const wire::EstimateBatchResponse response = WithLines(64, std::string(64, 'x'));
  EXPECT_THAT(FromWire(response, 1, /*with_breakdown=*/true)->front().breakdown, SizeIs(64));
  EXPECT_THAT(FromWire(response, 1, /*with_breakdown=*/false)->front().breakdown, IsEmpty());
}

TEST(QuestionWireTest, ABreakdownThatIsTooLargeIsRefused) {
  const absl::Status lines = FromWire(WithLines(65, "x"), 1, true).status();
  EXPECT_TRUE(absl::IsInternal(lines));
  EXPECT_THAT(std::string(lines.message()), HasSubstr("65 lines; must be at most 64"));
  const absl::Status name = FromWire(WithLines(1, std::string(65, 'x')), 1, true).status();
  EXPECT_THAT(std::string(name.message()), HasSubstr("65 bytes; must have at most 64"));
  EXPECT_TRUE(FromWire(WithLines(65, "x"), 1, false).ok());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
