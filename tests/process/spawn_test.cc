#include "server/process/spawn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "server/process/descriptor.h"
#include "server/process/follow_output.h"
#include "tests/events/gate.h"
#include "tests/events/wait_for.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

int Wait(int pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return ExitCodeOf(status);
}

// Runs a program to its end with its standard output in a file, and returns what it wrote.
std::string OutputOf(SpawnRequest request) {
  const TemporaryFolder folder;
  const auto output = OpenForAppending(folder.File("output"));
  EXPECT_TRUE(output.ok()) << output.status();
  request.descriptors[STDOUT_FILENO] = output->number();
  const auto pid = Spawn(request);
  EXPECT_TRUE(pid.ok()) << pid.status();
  EXPECT_EQ(Wait(*pid), 0);
  return ReadFile(folder.File("output"));
}

TEST(SpawnTest, RunsInTheFolderWithTheEnvironment) {
  const std::string value(100, 'b');
  EXPECT_EQ(OutputOf({.arguments = {"sh", "-c", "echo \"$0 $A $(pwd)\"", "word"},
                      .environment = {{"A=" + value, "PATH=/usr/bin:/bin"}},
                      .folder = "/usr"}),
            "word " + value + " /usr\n");
}

TEST(SpawnTest, EnvironmentIsOursUnlessStated) {
  ASSERT_EQ(setenv("MESHWRIGHT_SPAWN_TEST", "ours", 1), 0);
  EXPECT_EQ(OutputOf({.arguments = {"sh", "-c", "echo $MESHWRIGHT_SPAWN_TEST"}}), "ours\n");
}

TEST(SpawnTest, ProgramMayHaveAnotherName) {
  EXPECT_EQ(OutputOf({.arguments = {"named", "-c", "echo $0"}, .program = "sh"}), "named\n");
}

TEST(SpawnTest, OwnSession) {
  const SpawnRequest request = {.arguments = {"sh", "-c", "ps -o sid= -p $$; echo $$"}};
  SpawnRequest own = request;
  own.has_own_session = true;
  const auto leads = [](const std::string& text) {
    std::istringstream in(text);
    int session = 0;
    int pid = 0;
    in >> session >> pid;
    return session == pid;
  };
  EXPECT_FALSE(leads(OutputOf(request)));
  EXPECT_TRUE(leads(OutputOf(own)));
}

// Our descriptors have each other's numbers in the child.
TEST(SpawnTest, DescriptorsMayTradePlaces) {
  const TemporaryFolder folder;
  const auto first = OpenForAppending(folder.File("first"));
  const auto second = OpenForAppending(folder.File("second"));
  ASSERT_TRUE(first.ok() && second.ok());
  const std::string script = "echo 1 >&" + std::to_string(second->number()) + "; echo 2 >&" +
                             std::to_string(first->number());
  const auto pid = Spawn(
      {.arguments = {"bash", "-c", script},
       .descriptors = {{first->number(), second->number()}, {second->number(), first->number()}}});
  ASSERT_TRUE(pid.ok()) << pid.status();
  EXPECT_EQ(Wait(*pid), 0);
  EXPECT_EQ(ReadFile(folder.File("first")), "1\n");
  EXPECT_EQ(ReadFile(folder.File("second")), "2\n");
}

// A server waits for its signals on one thread and blocks them on all.
TEST(SpawnTest, ChildHearsSignalsThatWeBlock) {
  sigset_t term;
  sigset_t before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, &before);
  const auto pid = Spawn({.arguments = {"sleep", "600"}});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(pid.ok()) << pid.status();
  EXPECT_EQ(kill(*pid, SIGTERM), 0);
  EXPECT_EQ(Wait(*pid), 128 + SIGTERM);
}

TEST(SpawnTest, NoSuchProgram) {
  const auto pid = Spawn({.arguments = {"meshwright-no-such-program"}});
  EXPECT_TRUE(absl::IsNotFound(pid.status())) << pid.status();
  EXPECT_THAT(std::string(pid.status().message()), HasSubstr("meshwright-no-such-program"));
}

TEST(SpawnTest, NoSuchFolder) {
  EXPECT_FALSE(Spawn({.arguments = {"true"}, .folder = "/no/such/folder"}).ok());
}

struct Followed {
  std::string text = {};
  int exit_code = 0;
};

// Runs a shell script and follows what it writes to its standard output. `on_piece` is called with
// its process after each piece, and returns for how long to stop reading.
Followed Follow(const std::string& script,
                const std::function<std::chrono::milliseconds(int pid)>& on_piece = {}) {
  auto pipe = MakePipe();
  EXPECT_TRUE(pipe.ok()) << pipe.status();
  const auto pid = Spawn({.arguments = {"bash", "-c", script},
                          .descriptors = {{STDOUT_FILENO, pipe->write.number()}}});
  EXPECT_TRUE(pid.ok()) << pid.status();
  pipe->write.Close();
  const auto process = OpenProcess(*pid);
  EXPECT_TRUE(process.ok()) << process.status();
  Followed followed;
  const absl::Status status =
      FollowOutput(std::move(pipe->read), *process, [&](std::string_view piece) {
        followed.text += piece;
        return on_piece ? on_piece(*pid) : std::chrono::milliseconds(0);
      });
  EXPECT_TRUE(status.ok()) << status;
  followed.exit_code = Wait(*pid);
  return followed;
}

TEST(FollowOutputTest, AllThatWasWrittenBeforeTheEnd) {
  const Followed followed = Follow("for i in {1..20000}; do echo 12345; done; exit 7");
  EXPECT_EQ(followed.text.size(), 120'000u);
  EXPECT_EQ(followed.exit_code, 7);
}

TEST(FollowOutputTest, WhatIsLeftInThePipeDuringAPause) {
  const TemporaryFolder folder;
  const Gate gate(folder.File("gate"));
  const Followed followed = Follow("echo a; " + gate.WaitCommand() + "; echo b", [&](int /*pid*/) {
    gate.Open();
    return std::chrono::hours(1);
  });
  EXPECT_EQ(followed.text, "a\nb\n");
}

TEST(FollowOutputTest, ChildThatClosesItsOutput) {
  const TemporaryFolder folder;
  const Gate gate(folder.File("gate"));
  std::jthread opener;
  const Followed followed =
      Follow("echo a; exec >&-; " + gate.WaitCommand() + "; exit 3", [&](int pid) {
        opener = std::jthread([&gate, output = "/proc/" + std::to_string(pid) + "/fd/1"] {
          EXPECT_TRUE(WaitFor([&] { return access(output.c_str(), F_OK) != 0; }));
          gate.Open();
        });
        return std::chrono::milliseconds(0);
      });
  EXPECT_EQ(followed.text, "a\n");
  EXPECT_EQ(followed.exit_code, 3);
}

// The process that the child leaves behind keeps the pipe open for longer than the test may take.
TEST(FollowOutputTest, EndsWithTheChild) {
  const Followed followed = Follow("sleep 600 2>/dev/null & echo $!");
  EXPECT_EQ(followed.exit_code, 0);
  EXPECT_EQ(kill(std::stoi(followed.text), SIGKILL), 0);
}

TEST(WaitForCloseTest, TellsWhenTheLastWriterHasGone) {
  auto pipe = MakePipe();
  ASSERT_TRUE(pipe.ok()) << pipe.status();
  EXPECT_FALSE(WaitForClose(pipe->read, std::chrono::milliseconds(1)));
  const auto pid = Spawn({.arguments = {"sh", "-c", "exec 3>&-; exec sleep 600"},
                          .descriptors = {{3, pipe->write.number()}}});
  pipe->write.Close();
  EXPECT_TRUE(WaitForClose(pipe->read, std::chrono::minutes(1)));
  kill(*pid, SIGKILL);
  Wait(*pid);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
