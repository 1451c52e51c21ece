#include "recorder/page_token.h"

#include <gtest/gtest.h>

#include <limits>

#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct KeyCase {
  const char* name;
  PageKey key;
};
const KeyCase kKeys[] = {
    {"Plain", {.number = 1700000000000, .text = "study-1"}},
    {"NoText", {.number = 0}},
    {"Negative", {.number = std::numeric_limits<std::int64_t>::min(), .text = "a b  c"}},
    {"Bytes", {.number = 7, .text = std::string("\0\xff \n", 4)}},
};
class PageTokenTest : public testing::TestWithParam<KeyCase> {};

TEST_P(PageTokenTest, ComesBackFromItsOwnListOnly) {
  const std::string token = EncodePageToken("plans/a", GetParam().key);
  const auto key = DecodePageToken("plans/a", token);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(*key, GetParam().key);
  EXPECT_EQ(Reason(DecodePageToken("plans/b", token).status()), "INVALID_PAGE_TOKEN");
}

TEST_P(PageTokenTest, RefusesEveryDamagedDigit) {
  const std::string token = EncodePageToken("plans/a", GetParam().key);
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string damaged = token;
    damaged[i] = damaged[i] == '0' ? '1' : '0';
    EXPECT_FALSE(DecodePageToken("plans/a", damaged).ok()) << i;
    EXPECT_FALSE(DecodePageToken("plans/a", token.substr(0, i)).ok()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PageTokenTest, testing::ValuesIn(kKeys),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(PageTokenErrorTest, IsClean) {
  EXPECT_EQ(std::string(DecodePageToken("studies", "\x1b\xff").status().message()),
            "page_token = ' ?'; must be the next_page_token of an earlier answer to the same list");
}

TEST(PageSizeTest, DefaultsAndCuts) {
  EXPECT_EQ(*PageSize(0, "page_size"), 50);
  EXPECT_EQ(*PageSize(1, "page_size"), 1);
  EXPECT_EQ(*PageSize(1000, "page_size"), 1000);
  EXPECT_EQ(*PageSize(1001, "page_size"), 1000);
  const auto negative = PageSize(-1, "page_size");
  EXPECT_TRUE(absl::IsInvalidArgument(negative.status()));
  EXPECT_EQ(negative.status().message(), "page_size = -1; must be >= 0");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
