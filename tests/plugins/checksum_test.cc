#include "server/plugins/wire/checksum.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

TEST(ChecksumTest, HexComesBack) {
  const std::string bytes("\0\x7f\xff", 3);
  EXPECT_EQ(ToHex(bytes), "007fff");
  EXPECT_EQ(FromHex("007fff"), bytes);
  EXPECT_EQ(FromHex(""), "");
}

TEST(ChecksumTest, OneValueHasOneText) {
  for (const char* const text : {"0", "007", "0G", "FF", "-1", " 1", "+1"}) {
    EXPECT_EQ(FromHex(text), std::nullopt) << text;
  }
}

// FIPS 180-2, B.1.
TEST(ChecksumTest, IsSha256) {
  EXPECT_EQ(Checksum("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace meshwright
