#include "server/process/command.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "search_space/base/status.h"
#include "server/process/descriptor.h"
#include "server/process/spawn.h"

namespace meshwright {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// A child process, with our ends of its pipes.
struct Child {
  int pid = 0;
  FileHandle input;
  FileHandle output;
  FileHandle errors;
};

absl::StatusOr<Child> Start(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(Pipe input, MakeInputPipe());
  ASSIGN_OR_RETURN(Pipe output, MakePipe());
  ASSIGN_OR_RETURN(Pipe errors, MakePipe());
  ASSIGN_OR_RETURN(const int pid, Spawn({.arguments = arguments,
                                         .descriptors = {{STDIN_FILENO, input.read.number()},
                                                         {STDOUT_FILENO, output.write.number()},
                                                         {STDERR_FILENO, errors.write.number()}}}));
  return Child{.pid = pid,
               .input = std::move(input.write),
               .output = std::move(output.read),
               .errors = std::move(errors.read)};
}

// Serves a child's streams until the child has closed the two that it writes to and has ended.
class Exchange {
 public:
  Exchange(Child child, FileHandle process, CommandOutput& output)
      : input_(loop_, asio::local::stream_protocol(), child.input.Release()),
        output_{{loop_, child.output.Release()}, output.out},
        errors_{{loop_, child.errors.Release()}, output.err},
        process_(loop_, process.Release()) {}

  void Run(std::string_view input, Seconds limit) {
    Read(output_);
    Read(errors_);
    process_.async_wait(asio::posix::stream_descriptor::wait_read,
                        [this](const error_code&) { NoteEnd(); });
    // A program need not read its input, so the result of the write does not matter.
    asio::async_write(input_, asio::buffer(input), [this](const error_code&, std::size_t) {
      error_code ignored;
      input_.close(ignored);
    });
    loop_.run_for(std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit));
  }

 private:
  struct Stream {
    asio::posix::stream_descriptor end;
    std::string& text;
    std::array<char, 16384> piece = {};
  };

  void Read(Stream& stream) {
    stream.end.async_read_some(asio::buffer(stream.piece),
                               [this, &stream](const error_code& error, std::size_t size) {
                                 if (error) return NoteEnd();
                                 stream.text.append(stream.piece.data(), size);
                                 Read(stream);
                               });
  }
  void NoteEnd() {
    if (--open_count_ == 0) loop_.stop();
  }

  asio::io_context loop_;
  asio::local::stream_protocol::socket input_;
  Stream output_;
  Stream errors_;
  asio::posix::stream_descriptor process_;
  int open_count_ = 3;  // two output streams and the process
};

// Kills and reaps a child unless it has been reaped.
class Reaper {
 public:
  explicit Reaper(int pid) : pid_(pid) {}
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;
  ~Reaper() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  // Returns the exit code if the child has ended.
  std::optional<int> ExitCode() {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = 0;
    return ExitCodeOf(status);
  }

 private:
  int pid_;
};

}  // namespace

absl::StatusOr<CommandOutput> RunCommand(const std::vector<std::string>& arguments,
                                         std::string_view input, Seconds limit) {
  ASSIGN_OR_RETURN(Child child, Start(arguments));
  Reaper reaper(child.pid);
  ASSIGN_OR_RETURN(FileHandle process, OpenProcess(child.pid));
  CommandOutput output;
  try {
    Exchange(std::move(child), std::move(process), output).Run(input, limit);
  } catch (const boost::system::system_error& error) {  // no descriptor is left for the loop
    return absl::ResourceExhaustedError(fmt::format("{}: {}", arguments.front(), error.what()));
  }
  // A program has also ended if it has left its streams to a child of its own.
  const std::optional<int> exit_code = reaper.ExitCode();
  if (!exit_code.has_value()) {
    return absl::DeadlineExceededError(
        fmt::format("{} had not ended after {} s", arguments.front(), limit.count()));
  }
  output.exit_code = *exit_code;
  return output;
}

}  // namespace meshwright
