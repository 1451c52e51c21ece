#include "search_space/spec/estimate.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(EstimateWordTest, EveryTimeCauseHasItsOwnWord) {
  std::set<std::string_view> words;
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) words.insert(Word(static_cast<TimeCause>(i)));
  EXPECT_EQ(words.size(), kTimeCauseCount);
  EXPECT_EQ(Word(TimeCause::kFixed), "fixed");  // the last word, so the count is correct
  EXPECT_EQ(static_cast<std::size_t>(TimeCause::kFixed) + 1, kTimeCauseCount);
}

TEST(EstimateWordTest, EveryMemoryKindHasItsOwnWord) {
  std::set<std::string_view> words;
  for (std::size_t i = 0; i < kMemoryKindCount; ++i) words.insert(Word(static_cast<MemoryKind>(i)));
  EXPECT_EQ(words.size(), kMemoryKindCount);
  EXPECT_EQ(static_cast<std::size_t>(MemoryKind::kFrameworkCache) + 1, kMemoryKindCount);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
