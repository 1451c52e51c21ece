#include "server/process/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/events/gate.h"
#include "tests/events/wait_for.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

TEST(CommandTest, InputOutputAndExitCode) {
  const auto output =
      RunCommand({"bash", "-c", "cat; echo wrong >&2; exit 3"}, "in\n", Seconds(20));
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->out, "in\n");
  EXPECT_EQ(output->err, "wrong\n");
  EXPECT_EQ(output->exit_code, 3);
}

TEST(CommandTest, MoreThanAPipeHolds) {
  const std::string input(1'000'000, 'x');
  const auto output = RunCommand({"cat"}, input, Seconds(20));
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->out, input);
}

TEST(CommandTest, ProgramThatDoesNotReadItsInput) {
  const auto output = RunCommand({"true"}, std::string(1'000'000, 'x'), Seconds(20));
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->exit_code, 0);
}

TEST(CommandTest, Signal) {
  EXPECT_EQ(RunCommand({"bash", "-c", "kill -TERM $$"}, "", Seconds(20))->exit_code, 143);
}

TEST(CommandTest, ClosedStreamsDoNotMakeTheLimitVoid) {
  const auto output = RunCommand({"bash", "-c", "exec >&- 2>&-; sleep 600"}, "", Seconds(0.3));
  EXPECT_TRUE(absl::IsDeadlineExceeded(output.status())) << output.status();
}

// The program's child keeps the streams open, so they are served until the limit. The program
// itself has ended by then, unless the machine is busy: then the limit grows. The children wait at
// the gate, which lets them go at the end.
TEST(CommandTest, EndsBeforeItsChild) {
  const TemporaryFolder folder;
  const Gate gate(folder.File("gate"));
  const std::string script = "exec 5<'" + folder.File("gate") + "'; read -r _ <&5 & exit 4";
  Seconds limit(0.05);
  absl::StatusOr<CommandOutput> output;
  EXPECT_TRUE(WaitFor([&] {
    output = RunCommand({"bash", "-c", script}, "", limit);
    limit = 2 * limit;
    return !absl::IsDeadlineExceeded(output.status());
  }));
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->exit_code, 4);
}

TEST(CommandTest, NoSuchProgram) {
  const auto output = RunCommand({"meshwright-no-such-program"}, "", Seconds(20));
  EXPECT_TRUE(absl::IsNotFound(output.status())) << output.status();
  EXPECT_THAT(std::string(output.status().message()), HasSubstr("meshwright-no-such-program"));
}

TEST(CommandTest, TakesTooLong) {
  const auto output = RunCommand({"sleep", "600"}, "", Seconds(0.2));
  EXPECT_TRUE(absl::IsDeadlineExceeded(output.status())) << output.status();
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
