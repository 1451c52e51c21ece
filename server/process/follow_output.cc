#include "server/process/follow_output.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <utility>

namespace meshwright {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

class Follower {
 public:
  Follower(FileHandle pipe, FileHandle process, const OutputSink& sink)
      : pipe_(loop_, pipe.Release()), process_(loop_, process.Release()), sink_(sink) {}

  void Run() {
    process_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const error_code&) {
      has_ended_ = true;
      error_code ignored;
      pipe_.cancel(ignored);
      pause_.cancel();
    });
    Read();
    loop_.run();
    ReadRest();
  }

 private:
  // Continues to read until the pipe ends; a child may close it and still run.
  void Read() {
    if (has_ended_) return;
    pipe_.async_read_some(asio::buffer(piece_), [this](const error_code& error, std::size_t size) {
      if (error) return;
      pause_.expires_after(sink_({piece_.data(), size}));
      pause_.async_wait([this](const error_code&) { Read(); });
    });
  }

  // Reads no more than a pipe can hold, because children of the child may go on writing.
  void ReadRest() {
    constexpr int kMaxPieces = 16;
    error_code error;
    pipe_.non_blocking(true, error);
    for (int i = 0; !error && i < kMaxPieces; ++i) {
      const std::size_t size = pipe_.read_some(asio::buffer(piece_), error);
      if (!error) sink_({piece_.data(), size});
    }
  }

  asio::io_context loop_;
  asio::posix::stream_descriptor pipe_;
  asio::posix::stream_descriptor process_;
  asio::steady_timer pause_{loop_};
  const OutputSink& sink_;
  bool has_ended_ = false;
  std::array<char, 64 << 10> piece_;
};

}  // namespace

absl::Status FollowOutput(FileHandle pipe, const FileHandle& process, const OutputSink& sink) {
  FileHandle watched(fcntl(process.number(), F_DUPFD_CLOEXEC, 0));
  if (!watched.is_open()) return absl::ResourceExhaustedError("no descriptor is left");
  try {
    Follower(std::move(pipe), std::move(watched), sink).Run();
  } catch (const boost::system::system_error& error) {
    return absl::ResourceExhaustedError(error.what());
  }
  return absl::OkStatus();
}

bool WaitForClose(const FileHandle& pipe, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + limit;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    pollfd wait = {.fd = pipe.number(), .events = 0, .revents = 0};  // poll always reports the end
    const int told = poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (told > 0) return true;
    if (told == 0 || errno != EINTR) return false;
  }
}

}  // namespace meshwright
