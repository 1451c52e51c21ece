#include "server/rpc/services/answer_margin.h"

#include <gtest/gtest.h>

#include <chrono>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(AnswerMarginTest, BeginsWithWhatIsUsual) {
  const AnswerMargin margin;
  EXPECT_EQ(margin.For(seconds(5)), milliseconds(50));  // 40 ms and a quarter more
  // Half of a short time is left to the search.
  EXPECT_EQ(margin.For(milliseconds(50)), milliseconds(25));
}

TEST(AnswerMarginTest, FollowsWhatAnswersNeed) {
  AnswerMargin margin;
  for (std::size_t i = 1; i < AnswerMargin::kRemembered; ++i) margin.Note(milliseconds(8));
  EXPECT_EQ(margin.For(seconds(5)), milliseconds(50));  // one of the first is remembered
  margin.Note(milliseconds(8));
  EXPECT_EQ(margin.For(seconds(5)), milliseconds(10));
  // A late one counts at once, and until it is forgotten.
  margin.Note(milliseconds(200));
  EXPECT_EQ(margin.For(seconds(5)), milliseconds(250));
  for (std::size_t i = 1; i < AnswerMargin::kRemembered; ++i) margin.Note(milliseconds(8));
  EXPECT_EQ(margin.For(seconds(5)), milliseconds(250));
  margin.Note(milliseconds(8));
  EXPECT_EQ(margin.For(seconds(5)), milliseconds(10));
}

TEST(AnswerMarginTest, HasLimits) {
  AnswerMargin margin;
  for (std::size_t i = 0; i < AnswerMargin::kRemembered; ++i) margin.Note(milliseconds(0));
  EXPECT_EQ(margin.For(seconds(5)), AnswerMargin::kLeast);
  margin.Note(seconds(100));
  EXPECT_EQ(margin.For(seconds(5)), milliseconds(1250));  // of one second
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
