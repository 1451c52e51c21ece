#include "server/engine/spool.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(SpoolTest, GivesItsLinesAsOftenAsTheyAreAskedFor) {
  Spool spool = Spool::Open().value();
  ASSERT_TRUE(spool.Append("first\nsec").ok());
  ASSERT_TRUE(spool.Append("ond\n\nlast").ok());
  const LineSource lines = spool.Lines();
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(lines.rewind().ok());
    for (const char* expected : {"first", "second", "", "last"}) EXPECT_EQ(*lines.next(), expected);
    EXPECT_EQ(*lines.next(), std::nullopt);
  }
}

TEST(SpoolTest, HoldsItsLimits) {
  Spool spool = Spool::Open({.bytes = 10, .line_bytes = 5}).value();
  ASSERT_TRUE(spool.Append("12345678\n").ok());
  EXPECT_EQ(Reason(spool.Append("90")), "TOO_LARGE");
  Spool lines = Spool::Open({.line_bytes = 5}).value();
  ASSERT_TRUE(lines.Append("12345678\n").ok());
  ASSERT_TRUE(lines.Rewind().ok());
  EXPECT_EQ(Reason(lines.ReadLine().status()), "TOO_LARGE");
}

// An export may be larger than what a server accepts in one import.
TEST(SpoolTest, WithoutLimitsTakesMoreThanAnImport) {
  Spool spool = Spool::Open().value();
  const std::string part(1'000'000, 'x');
  for (int i = 0; i < 70; ++i) ASSERT_TRUE(spool.Append(part).ok());
  ASSERT_TRUE(spool.Rewind().ok());
  EXPECT_EQ(spool.Read(10)->size(), 10U);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
