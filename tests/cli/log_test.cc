#include "cli/program/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <string>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(LogTest, LinesGoToStderr) {
  LogToStderr();
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  spdlog::error("event=http_request_failed what=\"x\"");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::ContainsRegex("^time=.*Z level=error event=http_request_failed what=\"x\"\n$"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
