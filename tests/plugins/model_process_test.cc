#include "server/plugins/model_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "search_space/base/status.h"
#include "server/process/sanitizer.h"
#include "tests/events/wait_for.h"
#include "tests/plugins/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr milliseconds kStart(60'000);  // far above what a start takes on a busy machine

// Runs a script, whose $1 is the socket in the process's folder.
ProcessSpec ShellSpec(const std::string& script) { return {.command = {"/bin/sh", "-c", script}}; }

std::string FolderOf(const ModelProcess& process) {
  return std::filesystem::path(process.socket()).parent_path().string();
}

TEST(ModelProcessTest, ServesAndLeavesNothing) {
  std::string folder;
  {
    const auto process = ModelProcess::Start(SpecOf(CppTemplate()).value());
    ASSERT_TRUE(process.ok()) << process.status();
    ASSERT_TRUE((*process)->WaitForSocket(kStart).ok());
    EXPECT_THAT((*process)->isolation(), StartsWith("network="));
    folder = FolderOf(**process);
    EXPECT_EQ(std::filesystem::status(folder).permissions(), std::filesystem::perms::owner_all);
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_THAT(ProcessesLeft(folder), IsEmpty());
}

TEST(ModelProcessTest, SaysHowItEndedAndWhatItWrote) {
  const auto process = ModelProcess::Start(ShellSpec("echo no licence >&2; exit 3")).value();
  const absl::Status status = process->WaitForSocket(kStart);
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(process->how_it_ended(), "exit code 3");
  EXPECT_THAT(process->log_tail(), HasSubstr("no licence"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("exit code 3; it wrote: no licence"));
}

TEST(ModelProcessTest, NamesTheLimitOfMemoryWhereASignalEndsTheStart) {
  ProcessSpec spec = ShellSpec("kill -SEGV $$");
  spec.limits.memory_bytes = 100 << 20;
  const absl::Status status = ModelProcess::Start(spec).value()->WaitForSocket(kStart);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("(Segmentation fault), with memory_limit_bytes = 104857600; it wrote nothing"));
}

TEST(ModelProcessTest, NamesTheSignal) {
  const auto process = ModelProcess::Start(ShellSpec("kill -SEGV $$")).value();
  ASSERT_TRUE(process->WaitForEnd(kStart));
  EXPECT_THAT(process->how_it_ended(), HasSubstr("signal 11"));
}

TEST(ModelProcessTest, AProgramThatIsNotThere) {
  const auto process = ModelProcess::Start({.command = {"/nowhere/model"}}).value();
  ASSERT_TRUE(process->WaitForEnd(kStart));
  EXPECT_THAT(process->log_tail(), HasSubstr("cannot execute"));
}

// The orphans have left the session and the parent.
TEST(ModelProcessTest, WhatItStartedEndsWithIt) {
  const auto orphans = [](ModelProcess& process) { return FolderOf(process); };
  auto process = ModelProcess::Start(SpecOf(BadModel("orphans")).value()).value();
  ASSERT_TRUE(process->WaitForSocket(kStart).ok());
  const std::string folder = orphans(*process);
  process.reset();
  EXPECT_THAT(ProcessesLeft(folder), IsEmpty());
}

TEST(ModelProcessTest, TheKeeperKilledTakesAllWithIt) {
  const auto process = ModelProcess::Start(SpecOf(BadModel("orphans")).value()).value();
  ASSERT_TRUE(process->WaitForSocket(kStart).ok());
  kill(process->pid(), SIGKILL);
  ASSERT_TRUE(process->WaitForEnd(kStart));
  const bool has_own_ids = process->isolation().find("processes=own") != std::string::npos;
  // Without a namespace of its own an orphan of another session is found only by its keeper.
  if (has_own_ids) {
    EXPECT_THAT(ProcessesLeft(FolderOf(*process)), IsEmpty());
  }
}

TEST(ModelProcessTest, EndsWithItsParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto process = ModelProcess::Start(SpecOf(BadModel("orphans")).value());
    if (process.ok() && (*process)->WaitForSocket(kStart).ok()) {
      const std::string folder = FolderOf(**process);
      if (write(ends[1], folder.data(), folder.size()) > 0) kill(getpid(), SIGKILL);
    }
    _exit(1);
  }
  char folder[256] = {};
  ASSERT_GT(read(ends[0], folder, sizeof(folder) - 1), 0);
  close(ends[0]);
  close(ends[1]);
  EXPECT_THAT(ProcessesLeft(folder), IsEmpty());
}

TEST(ModelProcessTest, LimitsHold) {
  ProcessSpec spec = ShellSpec("ulimit -v; ulimit -n; ulimit -f; ulimit -c; env");
  spec.limits = {.memory_bytes = 100 << 20, .file_bytes = 1 << 20, .open_files = 32};
  spec.environment = {{"LICENCE", "x"}};
  setenv("MESHWRIGHT_SECRET", "y", 1);
  const auto process = ModelProcess::Start(spec).value();
  ASSERT_TRUE(process->WaitForEnd(kStart));
  // The limits are in KiB, a number, and blocks of 512 bytes: 100 x 1024; 1 MiB / 512.
  const std::string memory = kHasAddressSanitizer ? "unlimited" : "102400";
  EXPECT_THAT(process->log_tail(), HasSubstr(memory + "\n32\n2048\n0\n"));
  EXPECT_THAT(process->log_tail(), HasSubstr("LICENCE=x"));
  EXPECT_THAT(process->log_tail(), testing::Not(HasSubstr("MESHWRIGHT_SECRET")));
}

TEST(ModelProcessTest, TooManyProcessesAreEnded) {
  ProcessSpec spec = ShellSpec(
      "cd \"${1%/*}\"; mkfifo go; for i in 1 2 3 4 5 6 7 8 9; do sleep 600 & done; read line <go; "
      "exit 7");
  spec.limits.processes = 10;  // the shell is one
  const auto within = ModelProcess::Start(spec).value();
  // An endless series of orphans must not keep it from counting.
  spec = ShellSpec("for i in 1 2 3 4 5 6 7 8 9; do sleep 600 & done; while :; do (true &); done");
  spec.limits.processes = 9;
  const auto above = ModelProcess::Start(spec).value();
  const bool has_ended = above->WaitForEnd(kStart);
  if (above->isolation().find("processes=own") == std::string::npos) {
    GTEST_SKIP() << "the kernel allows no process ids of one's own";
  }
  ASSERT_TRUE(has_ended);
  EXPECT_THAT(above->log_tail(), HasSubstr("more than 9 processes at once"));
  EXPECT_THAT(ProcessesLeft(FolderOf(*above)), IsEmpty());
  // The first, which has as many as it may, goes on until it is told to end.
  const std::string go = FolderOf(*within) + "/go";
  int gate = -1;
  ASSERT_TRUE(WaitFor([&] {
    gate = open(go.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);  // fails while nobody reads
    return gate >= 0;
  })) << within->log_tail();
  EXPECT_EQ(write(gate, "\n", 1), 1);
  close(gate);
  ASSERT_TRUE(within->WaitForEnd(kStart));
  EXPECT_EQ(within->how_it_ended(), "exit code 7");
}

TEST(ModelProcessTest, AFloodOfOutputIsCut) {
  const auto process =
      ModelProcess::Start(ShellSpec("head -c 3000000 /dev/zero | tr '\\0' x; echo the end"))
          .value();
  ASSERT_TRUE(process->WaitForEnd(kStart));
  EXPECT_LT(process->log_tail().size(), 20'000U);
  EXPECT_THAT(process->log_tail(), HasSubstr("bytes were dropped"));
}

TEST(ModelProcessTest, WritesOnlyToItsFolderAndReachesNoNetwork) {
  std::string elsewhere = "/var/tmp/meshwright-model.XXXXXX";  // not in /tmp, which may be its own
  ASSERT_NE(mkdtemp(elsewhere.data()), nullptr);
  const auto process =
      ModelProcess::Start(
          ShellSpec("touch " + elsewhere +
                    "/here && echo could write;"
                    "touch \"${1%/*}/own\" && echo wrote its own; cat /proc/net/dev"))
          .value();
  ASSERT_TRUE(process->WaitForEnd(kStart));
  EXPECT_THAT(process->log_tail(), HasSubstr("wrote its own\n"));
  if (process->isolation().find("files=read_only") != std::string::npos) {
    EXPECT_THAT(process->log_tail(), testing::Not(HasSubstr("could write")));
  }
  if (process->isolation().find("network=none") != std::string::npos) {
    EXPECT_THAT(process->log_tail(), testing::Not(HasSubstr("eth")));
  }
  std::filesystem::remove_all(elsewhere);
}

// Through sockets, devices or memory of the machine, the model could leave its view or outlive it.
TEST(ModelProcessTest, ReachesNoSocketAndNoDeviceOfTheMachine) {
  const ModelFolders folders;  // in which the test listens
  const std::string socket = folders.path() + "/others";
  const int listening = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  socket.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listening, 1), 0);
  const auto process =
      ModelProcess::Start(
          ShellSpec(
              "ls /dev | tr '\\n' ' '; echo x > /dev/null && echo null; ipcmk -M 12345;"
              "/usr/bin/python3 -c '\n"
              "import socket, sys\n"
              "def tried(what, call):\n"
              "  try: call(); print(what, \"reached\")\n"
              "  except OSError as error: print(what, \"refused\")\n"
              "path = sys.argv[1]\n"
              "tried(\"stream\", lambda: socket.socket(socket.AF_UNIX).connect(path))\n"
              "tried(\"datagram\", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))\n"
              "tried(\"internet\", lambda: socket.socket())\n"
              "tried(\"pair\", lambda: socket.socketpair())\n"
              // The kernel reads the lower half of a family, a filter all of it.
              "import ctypes\n"
              "pair = (ctypes.c_int * 2)()\n"
              "code = ctypes.CDLL(None).syscall(ctypes.c_long(53), ctypes.c_long(2**32 + 1),"
              " ctypes.c_long(2), ctypes.c_long(0), pair)\n"
              "print(\"datagram pair\", \"refused\" if code else \"reached\")\n' " +
              socket))
          .value();
  ASSERT_TRUE(process->WaitForEnd(kStart));
  close(listening);
  const std::string seen = process->log_tail();
  EXPECT_THAT(seen, HasSubstr("null\n"));
  EXPECT_THAT(seen, HasSubstr("pair reached"));
  EXPECT_THAT(seen, HasSubstr("Shared memory id: "));
  // If the kernel allows namespaces, it allows the others as well.
  if (process->isolation().find("network=none") == std::string::npos) return;
  EXPECT_THAT(process->isolation(), HasSubstr("memory=own files=read_only devices=few "
                                              "connections=none"));
  EXPECT_THAT(seen, HasSubstr("stream refused\ndatagram refused\ninternet refused\n"));
  EXPECT_THAT(seen, HasSubstr("datagram pair refused\n"));
  EXPECT_THAT(seen, HasSubstr("fd full null random stderr stdin stdout urandom zero null\n"));
  std::ifstream segments("/proc/sysvipc/shm");
  std::string line;
  while (std::getline(segments, line)) EXPECT_THAT(line, testing::Not(HasSubstr(" 12345 ")));
}

// However few descriptors are free, a process that cannot be watched is not left running.
TEST(ModelProcessTest, AProcessThatCannotBeWatchedIsEnded) {
  if (kHasAddressSanitizer) GTEST_SKIP() << "the sanitizers' own checks need descriptors";
  const ModelFolders folders;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest = dup(0);
  close(lowest);
  constexpr int kEnough = 10;
  for (int free = 0; free <= kEnough; ++free) {
    rlimit tight = before;
    tight.rlim_cur = static_cast<rlim_t>(lowest) + static_cast<rlim_t>(free);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
    auto process = ModelProcess::Start(ShellSpec("sleep 600"));
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_TRUE(process.ok() || absl::IsUnavailable(process.status())) << process.status();
    EXPECT_TRUE(process.ok() || free < kEnough);
    if (process.ok()) process->reset();
    EXPECT_THAT(ProcessesLeft(folders.path()), IsEmpty()) << free;
  }
}

TEST(ModelProcessTest, WaitsNoLongerThanItMay) {
  const auto process = ModelProcess::Start(ShellSpec("sleep 600")).value();
  EXPECT_EQ(Reason(process->WaitForSocket(milliseconds(50))), "COST_MODEL_START");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
