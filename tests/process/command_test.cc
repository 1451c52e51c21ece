#include "server/process/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

namespace meshwright {
namespace {

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

// The program's child keeps the streams open, so they are served until the limit, by which the
// program itself has ended.
TEST(CommandTest, EndsBeforeItsChild) {
  const auto output = RunCommand({"bash", "-c", "sleep 600 & echo $!; exit 4"}, "", Seconds(5));
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->exit_code, 4);
  EXPECT_EQ(kill(std::stoi(output->out), SIGKILL), 0);
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

}  // namespace
}  // namespace meshwright
