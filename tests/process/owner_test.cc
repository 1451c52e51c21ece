#include "server/process/owner.h"

#include <gtest/gtest.h>

#include <string>

namespace meshwright {
namespace {

TEST(Owner, ThisProcessIsAlive) {
  EXPECT_TRUE(IsAlive(OwnOwner())) << OwnOwner();
  EXPECT_EQ(OwnOwner(), OwnOwner());
}

TEST(Owner, ALaterProcessWithTheSamePidIsAnother) { EXPECT_FALSE(IsAlive(OwnOwner() + "0")); }

TEST(Owner, OtherTextIsNobody) {
  for (const char* text : {"", ":", ":1", "1", "x:1", "-1:1", "self:1", "../1:1", "1 :1",
                           "999999999:1", "99999999999999999999:1"}) {
    EXPECT_FALSE(IsAlive(text)) << text;
  }
}

}  // namespace
}  // namespace meshwright
