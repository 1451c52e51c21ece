// Tests the helpers by which other tests see processes come and go.
#include "tests/files/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/process/spawn.h"
#include "tests/events/wait_for.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ProcessesTest, AreThoseWithTheTextUntilTheyEnd) {
  const TemporaryFolder folder;  // a text that no other process has
  const auto pid =
      Spawn({.arguments = {"sleep", "600"}, .environment = {{"A=" + folder.path(), "PATH=/bin"}}});
  ASSERT_TRUE(pid.ok()) << pid.status();
  EXPECT_TRUE(WaitFor([&] { return !ProcessesWith(folder.path(), {"environ"}).empty(); }));
  EXPECT_THAT(ProcessesWith(folder.path(), {"cmdline", "environ"}), ElementsAre(*pid));
  EXPECT_THAT(ProcessesWith(folder.path(), {"cmdline"}), IsEmpty());
  ASSERT_EQ(kill(*pid, SIGKILL), 0);
  siginfo_t end = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(*pid), &end, WEXITED | WNOWAIT), 0);
  EXPECT_THAT(ProcessesWith(folder.path(), {"environ"}), IsEmpty()) << "not reaped yet";
  ASSERT_EQ(waitpid(*pid, nullptr, 0), *pid);
  EXPECT_THAT(ProcessesWith(folder.path(), {"environ"}), IsEmpty());
}

// A folder can be opened like a file, but reads of it fail, as do those of a process that ends.
TEST(ProcessesTest, AFileThatCannotBeReadIsEmpty) {
  EXPECT_EQ(ReadFile("/proc"), "");
  EXPECT_EQ(ReadFile("/proc/self/mem"), "");
  EXPECT_EQ(ReadFile("/no/such/file"), "");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
