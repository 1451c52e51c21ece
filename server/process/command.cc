#include "server/process/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "server/process/spawn_attributes.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kExitPoll(5);

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { Close(); }
  void Close() {
    if (number_ >= 0) close(std::exchange(number_, -1));
  }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

struct Pipe {
  Descriptor read;
  Descriptor write;
};

absl::StatusOr<Pipe> MakePipe() {
  std::array<int, 2> ends = {};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(fmt::format("pipe: {}", std::strerror(errno)));
  }
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

// A pipe whose broken end is an error of a write, and not a signal to this process.
absl::StatusOr<Pipe> MakeInputPipe() {
  std::array<int, 2> ends = {};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return absl::ResourceExhaustedError(fmt::format("socketpair: {}", std::strerror(errno)));
  }
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

// Our ends of the pipes to a child.
struct Child {
  pid_t pid = 0;
  Descriptor in;
  Descriptor out;
  Descriptor err;
};

absl::StatusOr<Child> Spawn(const std::vector<std::string>& arguments) {
  auto in = MakeInputPipe();
  auto out = MakePipe();
  auto err = MakePipe();
  for (const auto* made : {&in, &out, &err}) {
    if (!made->ok()) return made->status();
  }
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in->read.number(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out->write.number(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err->write.number(), STDERR_FILENO);
  SpawnAttributes attributes;
  Child child;
  const int error =
      posix_spawnp(&child.pid, words.front(), &actions, attributes.get(), words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    const std::string message = fmt::format("{}: {}", arguments.front(), std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
  }
  child.in = std::move(in->write);
  child.out = std::move(out->read);
  child.err = std::move(err->read);
  return child;
}

// Reads what is there; closes at the end of the stream.
void ReadSome(Descriptor& from, std::string& text) {
  std::array<char, 16384> buffer = {};
  const ssize_t count = read(from.number(), buffer.data(), buffer.size());
  if (count > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  } else if (count == 0 || errno != EINTR) {
    from.Close();
  }
}

void WriteSome(Descriptor& to, std::string_view& rest) {
  const ssize_t count = send(to.number(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count >= 0) rest.remove_prefix(static_cast<std::size_t>(count));
  const bool is_broken = count < 0 && errno != EINTR && errno != EAGAIN;
  if (rest.empty() || is_broken) to.Close();  // a program need not read its input
}

// Nothing when it has not ended by `end`. It is looked at once at least.
std::optional<int> ExitCode(pid_t pid, Clock::time_point end) {
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (Clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(kExitPoll);
  }
}

// Until both streams have ended, or the end.
void Exchange(Child& child, std::string_view input, CommandOutput& output, Clock::time_point end) {
  if (input.empty()) child.in.Close();
  while (child.out.is_open() || child.err.is_open()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return;
    std::array<pollfd, 3> waits = {{{child.out.number(), POLLIN, 0},
                                    {child.err.number(), POLLIN, 0},
                                    {child.in.number(), POLLOUT, 0}}};
    if (poll(waits.data(), waits.size(), static_cast<int>(left.count()) + 1) <= 0) continue;
    if (waits[0].revents != 0) ReadSome(child.out, output.out);
    if (waits[1].revents != 0) ReadSome(child.err, output.err);
    if (waits[2].revents != 0) WriteSome(child.in, input);
  }
}

}  // namespace

absl::StatusOr<CommandOutput> RunCommand(const std::vector<std::string>& arguments,
                                         std::string_view input, Seconds limit) {
  auto child = Spawn(arguments);
  if (!child.ok()) return child.status();
  CommandOutput output;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  Exchange(*child, input, output, end);
  // A program that has left its streams to a child of its own has ended too.
  const std::optional<int> exit_code = ExitCode(child->pid, end);
  if (exit_code.has_value()) {
    output.exit_code = *exit_code;
    return output;
  }
  kill(child->pid, SIGKILL);
  waitpid(child->pid, nullptr, 0);
  return absl::DeadlineExceededError(
      fmt::format("{} had not ended after {} s", arguments.front(), limit.count()));
}

}  // namespace meshwright
