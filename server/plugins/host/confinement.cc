#include "server/plugins/host/confinement.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "server/plugins/host/call_filter.h"
#include "server/plugins/host/file_view.h"
#include "server/process/numbers_in.h"
#include "server/process/sanitizer.h"

namespace meshwright {
namespace {

constexpr int kTooManyProcesses = 125;
constexpr int kCannotExecute = 127;
// The time between two counts. A program that starts processes as fast as it can has some thousands
// by then.
constexpr timespec kCountPeriod = {.tv_sec = 0, .tv_nsec = 50'000'000};
constexpr int kReapedBetweenCounts = 64;  // orphans may end faster than they are reaped
constexpr int kNobody = 65534;
constexpr int kSignalBase = 128;

bool WriteFile(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return file.good();
}

// Closes what a child has inherited from a process with several threads.
void CloseInherited() { syscall(SYS_close_range, 3U, ~0U, 0U); }

int CodeOf(int status) {
  return WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

// Everything that the kernel allowed.
struct Allowed {
  bool has_network = true;    // the machine's network
  bool sees_others = true;    // processes of others
  bool shares_memory = true;  // System V's, and POSIX message queues
  bool can_connect = true;    // to sockets of others
  bool can_write = true;      // outside the folder
  bool has_devices = true;    // the machine's devices
};

// Enters new namespaces. A new user namespace gives the rights over the others, and exec drops them
// because the user is nobody in it. System V's shared memory outlives processes but not its
// namespace.
Allowed EnterNamespaces() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  Allowed allowed;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID) == 0) {
    allowed.sees_others = false;
  } else if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return allowed;
  }
  allowed.has_network = false;
  allowed.shares_memory = unshare(CLONE_NEWIPC) != 0;
  WriteFile("/proc/self/setgroups", "deny");
  WriteFile("/proc/self/uid_map", fmt::format("{} {} 1", kNobody, user));
  WriteFile("/proc/self/gid_map", fmt::format("{} {} 1", kNobody, group));
  return allowed;
}

void Limit(__rlimit_resource resource, std::int64_t value) {
  const auto amount = static_cast<rlim_t>(value);
  const rlimit limit = {.rlim_cur = amount, .rlim_max = amount};
  setrlimit(resource, &limit);
}

[[noreturn]] void Execute(const Confinement& confinement) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  Limit(RLIMIT_CORE, 0);
  // AddressSanitizer's shadow memory takes terabytes of address space: with the limit, no model
  // that is built like this program would start.
  if (!kHasAddressSanitizer) Limit(RLIMIT_AS, confinement.memory_bytes);
  Limit(RLIMIT_CPU, confinement.cpu_seconds);
  Limit(RLIMIT_FSIZE, confinement.file_bytes);
  Limit(RLIMIT_NOFILE, confinement.open_files);
  std::vector<char*> words;
  std::vector<std::string> command = confinement.command;
  words.reserve(command.size() + 1);
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  execv(words.front(), words.data());
  fmt::print(stderr, "cannot execute {}: {}\n", command.front(), std::strerror(errno));
  std::fflush(stderr);
  _exit(kCannotExecute);
}

// Counts the other processes of the namespace, whose first one this is; 0 if /proc shows another
// namespace.
std::int64_t ProcessesBesides() {
  const pid_t self = getpid();
  std::error_code error;
  if (std::filesystem::read_symlink("/proc/self", error) != std::to_string(self)) return 0;
  return std::ranges::count_if(NumbersIn("/proc"), [&](int pid) { return pid != self; });
}

// Waits until the program ends and returns its exit code. RLIMIT_NPROC would count the user's other
// processes as well, and does not bind root.
int Watch(pid_t program, std::optional<std::int64_t> most_processes) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (;;) {
    pid_t ended = 1;
    for (int reaped = 0; ended > 0 && reaped < kReapedBetweenCounts; ++reaped) {
      int status = 0;
      ended = waitpid(-1, &status, WNOHANG);
      if (ended == program) return CodeOf(status);
      if (ended < 0) return kCannotExecute;
    }
    if (most_processes.has_value() && ProcessesBesides() > *most_processes) {
      fmt::print(stderr, "more than {} processes at once: all are ended\n", *most_processes);
      std::fflush(stderr);
      return kTooManyProcesses;
    }
    if (ended == 0) sigtimedwait(&signals, nullptr, &kCountPeriod);
  }
}

// Runs the first process of the namespace: when it ends, the kernel ends all others there. It reaps
// orphans, which a vendor's program does not know to do.
[[noreturn]] void RunFirst(const Confinement& confinement, Allowed allowed) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!allowed.has_network) {
    const FileView view = EnterFileView(confinement.folder, confinement.command);
    allowed.can_write = !view.is_read_only;
    allowed.has_devices = !view.has_own_devices;
  }
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  allowed.can_connect = !ForbidConnections();
  fmt::print(
      "meshwright-confinement network={} processes={} memory={} files={} devices={} "
      "connections={}\n",
      allowed.has_network ? "host" : "none", allowed.sees_others ? "host" : "own",
      allowed.shares_memory ? "host" : "own", allowed.can_write ? "writable" : "read_only",
      allowed.has_devices ? "host" : "few", allowed.can_connect ? "host" : "none");
  std::fflush(stdout);
  const pid_t program = fork();
  if (program == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Execute(confinement);
  }
  if (program < 0) _exit(kCannotExecute);
  std::optional<std::int64_t> most_processes;
  if (!allowed.sees_others) most_processes = confinement.processes;
  _exit(Watch(program, most_processes));
}

// Ends the children, and the orphans that came to this process.
void EndChildren() {
  for (;;) {
    std::ifstream children("/proc/thread-self/children");
    bool has_any = false;
    for (pid_t child = 0; children >> child;) {
      kill(child, SIGKILL);
      has_any = true;
    }
    if (!has_any) {  // or the kernel does not list them
      if (waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD) return;
    }
    if (waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
  }
}

int WaitForEnd(pid_t first, const sigset_t& signals) {
  for (;;) {
    const int signal = sigwaitinfo(&signals, nullptr);
    if (signal == SIGTERM) {
      kill(first, SIGKILL);
      return kSignalBase + SIGTERM;
    }
    int status = 0;
    for (pid_t ended = waitpid(-1, &status, WNOHANG); ended > 0;
         ended = waitpid(-1, &status, WNOHANG)) {
      if (ended == first) return CodeOf(status);
    }
  }
}

}  // namespace

absl::StatusOr<int> RunConfined(const Confinement& confinement) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  CloseInherited();
  const Allowed allowed = EnterNamespaces();
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // a new user namespace clears it
  if (getppid() != confinement.parent) return absl::CancelledError("the parent has ended");
  const pid_t first = fork();
  if (first == 0) RunFirst(confinement, allowed);
  if (first < 0) return absl::UnavailableError(fmt::format("fork: {}", std::strerror(errno)));
  const int code = WaitForEnd(first, signals);
  EndChildren();
  std::error_code ignored;  // whoever made the folder removes it too
  std::filesystem::remove_all(confinement.folder, ignored);
  return code;
}

}  // namespace meshwright
