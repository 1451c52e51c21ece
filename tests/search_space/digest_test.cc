#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "search_space/base/edit_distance.h"
#include "search_space/digest/base_encoding.h"
#include "search_space/digest/fnv.h"
#include "search_space/digest/sha256.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Has the test vectors of draft-eastlake-fnv-17, section 6.2 and appendix C: "" and "a".
TEST(FnvTest, TheDraftsTestVectors) {
  EXPECT_EQ(Fnv1a32(""), 0x811c9dc5U);
  EXPECT_EQ(Fnv1a32("a"), 0xe40c292cU);
  EXPECT_EQ(Fnv1a64Hex(""), "cbf29ce484222325");
  EXPECT_EQ(Fnv1a64Hex("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(Fnv1a128Hex(""), "6c62272e07bb014262b821756295c58d");
  EXPECT_EQ(Fnv1a128Hex("a"), "d228cb696f1a8caf78912b704e4a8964");
}

// Has the example of FIPS 180-4, "abc", in one piece and in two.
TEST(Sha256Test, ThePublishedExample) {
  constexpr char kDigest[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_EQ(Sha256Hex("abc"), kDigest);
  Sha256 digest;
  digest.Add("a");
  digest.Add("bc");
  EXPECT_EQ(digest.Hex(), kDigest);
  EXPECT_EQ(digest.Hex(), kDigest);
}

TEST(BaseEncodingTest, HexComesBack) {
  const std::string bytes("\0\x7f\xff", 3);
  EXPECT_EQ(ToHex(bytes), "007fff");
  EXPECT_EQ(FromHex("007fff"), bytes);
  EXPECT_EQ(FromHex(""), "");
}

// Has the pairs of RFC 4648, section 10.
TEST(BaseEncodingTest, Base64IsThePublishedOne) {
  const std::pair<const char*, const char*> kPairs[] = {{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : kPairs) {
    EXPECT_EQ(ToBase64(bytes), text);
    EXPECT_EQ(FromBase64(text), bytes);
  }
}

TEST(BaseEncodingTest, OneValueHasOneText) {
  for (const char* const text : {"0", "007", "0G", "FF", "-1", " 1", "+1"}) {
    EXPECT_EQ(FromHex(text), std::nullopt) << text;
  }
  for (const char* const text :
       {"Z", "Zg", "Zg=", "Zg==\n", " Zm9v", "Zh==", "Zm9v=", "====", "Z===", "Zm9!"}) {
    EXPECT_EQ(FromBase64(text), std::nullopt) << text;
  }
}

TEST(EditDistanceTest, CountsChangesAdditionsAndRemovals) {
  EXPECT_EQ(EditDistance("", ""), 0U);
  EXPECT_EQ(EditDistance("abc", ""), 3U);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3U);  // k to s, e to i, and a new g
  EXPECT_EQ(EditDistance("layers", "layer"), 1U);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
