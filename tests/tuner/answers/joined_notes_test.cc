#include "server/tuner/answers/joined_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(JoinedNotesTest, OfOneQuestionAreAsTheyAre) {
  EXPECT_THAT(JoinedWarnings({}), IsEmpty());
  EXPECT_THAT(JoinedWarnings({{.name = "bf16", .warnings = {"a", "b", "a"}}}),
              ElementsAre("a", "b"));
}

TEST(JoinedNotesTest, AWarningOfSomeNamesThem) {
  EXPECT_THAT(JoinedWarnings({{.name = "8 devices", .warnings = {"all", "first"}},
                              {.name = "16 devices", .warnings = {"later", "all"}},
                              {.name = "32 devices", .warnings = {"all", "later"}}}),
              ElementsAre("all", "with 8 devices: first", "with 16 devices, 32 devices: later"));
}

// A user reads a default once, with the settings that it holds for.
TEST(JoinedNotesTest, EqualDefaultsAreOneLine) {
  const AppliedDefault common = {.field = "a", .value = "1", .source = "profile"};
  const AppliedDefault first = {.field = "b", .value = "fp32", .source = "profile"};
  const AppliedDefault later = {.field = "b", .value = "bf16", .source = "profile"};
  const AppliedDefault last = {.field = "c", .value = "2", .source = "profile"};
  const auto joined = JoinedDefaults({{.name = "fp32", .defaults = {common, first, last}},
                                      {.name = "bf16", .defaults = {common, later, last}},
                                      {.name = "fp8", .defaults = {common, later, last}}});
  AppliedDefault first_named = first;
  first_named.source = "profile, with fp32";
  AppliedDefault later_named = later;
  later_named.source = "profile, with bf16, fp8";
  EXPECT_THAT(joined, ElementsAre(common, first_named, later_named, last));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
