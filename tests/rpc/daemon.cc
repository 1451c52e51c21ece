#include "tests/rpc/daemon.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>
#include <utility>

namespace meshwright {
namespace {

constexpr std::string_view kLineStart = "listening on ";

}  // namespace

Daemon::Daemon(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {MESHWRIGHTD_PATH, "--listen", "127.0.0.1:0"});
  std::vector<char*> arguments;
  for (std::string& flag : flags) arguments.push_back(flag.data());
  arguments.push_back(nullptr);

  int ends[2] = {};
  if (pipe(ends) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  posix_spawn(&pid_, MESHWRIGHTD_PATH, &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);

  std::string line;
  char c = 0;
  while (read(ends[0], &c, 1) == 1 && c != '\n') line += c;
  close(ends[0]);
  if (line.starts_with(kLineStart)) address_ = line.substr(kLineStart.size());
}

Daemon::~Daemon() { Stop(SIGKILL); }

int Daemon::Stop(int signal) {
  if (pid_ == 0) return 0;
  kill(pid_, signal);
  int status = 0;
  waitpid(std::exchange(pid_, 0), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace meshwright
