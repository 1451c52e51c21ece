#include "server/process/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "search_space/base/status.h"
#include "server/process/descriptor.h"

namespace meshwright {
namespace {

// The steps that posix_spawn takes in the child before the program runs.
class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }

  [[nodiscard]] posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_ = {};
};

// The attributes of a child that receives signals. It may have a session of its own.
class Attributes {
 public:
  explicit Attributes(bool has_own_session) {
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGALRM, SIGPIPE, SIGCHLD}) {
      sigaddset(&signals, signal);
    }
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    const int flags =
        POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (has_own_session ? POSIX_SPAWN_SETSID : 0);
    posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }

  [[nodiscard]] const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_ = {};
};

// Returns the words as C expects them, with a null pointer after the last. posix_spawn changes none
// of them.
std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}
std::vector<char*> Pointers(const std::vector<std::string>&& words) = delete;  // would dangle

// Returns copies of our descriptors with numbers above all of the child's, so that placing one of
// them never overwrites another.
absl::StatusOr<std::map<int, FileHandle>> CopiesOf(const std::map<int, int>& descriptors) {
  std::map<int, FileHandle> copies;
  for (const auto& [child, own] : descriptors) {
    FileHandle copy(fcntl(own, F_DUPFD_CLOEXEC, descriptors.rbegin()->first + 1));
    if (!copy.is_open()) {
      return absl::ResourceExhaustedError(
          fmt::format("descriptor {}: {}", own, std::strerror(errno)));
    }
    copies.emplace(child, std::move(copy));
  }
  return copies;
}

}  // namespace

absl::StatusOr<int> Spawn(const SpawnRequest& request) {
  ASSIGN_OR_RETURN(const auto copies, CopiesOf(request.descriptors));
  FileActions actions;
  for (const auto& [child, copy] : copies) {
    posix_spawn_file_actions_adddup2(actions.get(), copy.number(), child);
  }
  if (!request.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(actions.get(), request.folder.c_str());
  }
  const Attributes attributes(request.has_own_session);
  const std::string& program =
      request.program.empty() ? request.arguments.front() : request.program;
  const std::vector<char*> arguments = Pointers(request.arguments);
  std::vector<char*> environment;
  if (request.environment.has_value()) environment = Pointers(*request.environment);
  char* const* const variables = request.environment.has_value() ? environment.data() : environ;
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, program.c_str(), actions.get(), attributes.get(),
                                 arguments.data(), variables);
  if (error == 0) return pid;
  const std::string message = fmt::format("{}: {}", program, std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

int ExitCodeOf(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace meshwright
