#include "server/process/owner.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

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

// A server that has run out of descriptors must not take over studies or end jobs of others.
TEST(Owner, IsAliveWhileItCannotBeFoundOut) {
  const std::string own = OwnOwner();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool is_alive = IsAlive(own);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(is_alive);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
