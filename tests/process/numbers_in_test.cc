#include "server/process/numbers_in.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "server/process/spawn.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

TEST(NumbersInTest, NamesThatAreNumbers) {
  const TemporaryFolder folder;
  for (const char* const name : {"1", "23", "4x", "self", "99999999999"}) folder.Write(name, "");
  EXPECT_THAT(NumbersIn(folder.path()), UnorderedElementsAre(1, 23));
  EXPECT_THAT(NumbersIn(folder.File("absent")), IsEmpty());
}

TEST(NumbersInTest, AProcessUntilItIsGone) {
  const auto pid = Spawn({.arguments = {"sleep", "600"}});
  ASSERT_TRUE(pid.ok()) << pid.status();
  const std::string threads = "/proc/" + std::to_string(*pid) + "/task";
  EXPECT_THAT(NumbersIn("/proc"), Contains(*pid));
  EXPECT_THAT(NumbersIn(threads), UnorderedElementsAre(*pid));
  ASSERT_EQ(kill(*pid, SIGKILL), 0);
  ASSERT_EQ(waitpid(*pid, nullptr, 0), *pid);
  EXPECT_THAT(NumbersIn("/proc"), Not(Contains(*pid)));
  EXPECT_THAT(NumbersIn(threads), IsEmpty());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
