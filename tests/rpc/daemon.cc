#include "tests/rpc/daemon.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/process/descriptor.h"
#include "server/process/spawn.h"

namespace meshwright {
namespace {

constexpr std::string_view kLineStart = "listening on ";

}  // namespace

Daemon::Daemon(std::vector<std::string> flags, Wait wait) {
  if (std::ranges::find(flags, "--listen") == flags.end()) {
    flags.insert(flags.begin(), {"--listen", "127.0.0.1:0"});
  }
  flags.insert(flags.begin(), MESHWRIGHTD_PATH);
  auto output = MakePipe();
  if (!output.ok()) return;
  const auto pid =
      Spawn({.arguments = flags, .descriptors = {{STDOUT_FILENO, output->write.number()}}});
  if (!pid.ok()) return;
  pid_ = *pid;
  output->write.Close();
  output_ = std::move(output->read);
  if (wait == Wait::kUntilReady) WaitUntilReady();
}

void Daemon::WaitUntilReady() {
  std::string line;
  char c = 0;
  while (read(output_.number(), &c, 1) == 1 && c != '\n') line += c;
  if (line.starts_with(kLineStart)) address_ = line.substr(kLineStart.size());
}

Daemon::~Daemon() { Stop(SIGKILL); }

int Daemon::Stop(int signal) {
  if (pid_ == 0) return 0;
  kill(pid_, signal);
  int status = 0;
  waitpid(std::exchange(pid_, 0), &status, 0);
  return ExitCodeOf(status);
}

}  // namespace meshwright
