#include "server/http/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::Optional;
using testing::Pair;

TEST(UrlTest, PercentSignsStandForBytes) {
  EXPECT_THAT(DecodePercent("a%2Fb%20c+d", false), Optional(std::string("a/b c+d")));
  EXPECT_THAT(DecodePercent("a+b", true), Optional(std::string("a b")));
  for (const char* bad : {"%", "%2", "%zz", "%-1", "a%2"}) {
    EXPECT_EQ(DecodePercent(bad, false), std::nullopt) << bad;
  }
}

TEST(UrlTest, AQueryHasNamesAndValues) {
  EXPECT_THAT(DecodeQuery(""), Optional(ElementsAre()));
  EXPECT_THAT(DecodeQuery("page_size=5&filter.text=a%26b&empty=&alone"),
              Optional(ElementsAre(Pair("page_size", "5"), Pair("filter.text", "a&b"),
                                   Pair("empty", ""), Pair("alone", ""))));
  EXPECT_EQ(DecodeQuery("a=%x"), std::nullopt);
}

TEST(UrlTest, APathHasParts) {
  EXPECT_THAT(DecodePath("/v1/studies/a%2Fb"), Optional(ElementsAre("v1", "studies", "a/b")));
  EXPECT_THAT(DecodePath("/"), Optional(ElementsAre("")));
  EXPECT_EQ(DecodePath("v1"), std::nullopt);
  EXPECT_EQ(DecodePath(""), std::nullopt);
  EXPECT_EQ(DecodePath("/%f"), std::nullopt);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
