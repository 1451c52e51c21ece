#include "server/tuner/answers/joined_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(JoinedWarningsTest, OfOneQuestionAreAsTheyAre) {
  EXPECT_THAT(JoinedWarnings({}), IsEmpty());
  EXPECT_THAT(JoinedWarnings({{.name = "bf16", .warnings = {"a", "b", "a"}}}),
              ElementsAre("a", "b"));
}

TEST(JoinedWarningsTest, WhatNotAllGiveIsNamed) {
  EXPECT_THAT(JoinedWarnings({{.name = "8 devices", .warnings = {"all", "first"}},
                              {.name = "16 devices", .warnings = {"later", "all"}},
                              {.name = "32 devices", .warnings = {"all", "later"}}}),
              ElementsAre("all", "with 8 devices: first", "with 16 devices, 32 devices: later"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
