// Tests that a client with many connections, calls or watches keeps nobody else out.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/v1/service.grpc.pb.h"
#include "search_space/base/status.h"
#include "server/convert/status_wire.h"
#include "server/process/descriptor.h"
#include "server/rpc/client/client.h"
#include "tests/events/wait_for.h"
#include "tests/rpc/questions.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

FileHandle NewSocket() { return FileHandle(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

bool ConnectTo(const std::string& address, const FileHandle& socket) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  return connect(socket.number(), static_cast<sockaddr*>(static_cast<void*>(&to)), sizeof(to)) == 0;
}

// Waits until the server closes a connection, and returns false if it begins to speak or hangs.
bool IsClosedAtOnce(const FileHandle& socket) {
  const timeval patience = {.tv_sec = 60, .tv_usec = 0};
  setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  char byte = 0;
  const ssize_t size = recv(socket.number(), &byte, 1, 0);
  return size == 0 || (size < 0 && errno == ECONNRESET);
}

bool CanCall(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto stub = v1::TuningService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  v1::ListStudiesResponse response;
  return stub->ListStudies(&context, {}, &response).ok();
}

TEST(ConnectionsTest, TooManyAreClosedAndRoomIsFoundAgain) {
  constexpr int kLimit = 5;
  RunningServer running(ServerOptions{.host_connection_limit = kLimit});
  const std::string& address = running.server().address();
  std::vector<FileHandle> idle;  // beside the fixture's client
  for (int i = 1; i < kLimit; ++i) {
    idle.push_back(NewSocket());
    ASSERT_TRUE(ConnectTo(address, idle.back()));
  }
  const FileHandle further = NewSocket();
  ASSERT_TRUE(ConnectTo(address, further));
  EXPECT_TRUE(IsClosedAtOnce(further));
  EXPECT_TRUE(running.client().ListStudies({}).ok()) << "an open connection is not touched";
  idle.clear();
  EXPECT_TRUE(WaitFor([&] { return CanCall(address); }));
}

// gRPC's own listener stopped for ever.
TEST(ConnectionsTest, ALackOfFilesEnds) {
  RunningServer running;
  const std::string& address = running.server().address();
  std::vector<FileHandle> sockets;
  for (int i = 0; i < 20; ++i) sockets.push_back(NewSocket());
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  rlimit none_left = limit;
  none_left.rlim_cur = static_cast<rlim_t>(FileHandle(dup(STDIN_FILENO)).number());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
  int closed_count = 0;
  for (const FileHandle& socket : sockets) {
    if (ConnectTo(address, socket) && IsClosedAtOnce(socket)) ++closed_count;
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(closed_count, 20);
  EXPECT_TRUE(WaitFor([&] { return CanCall(address); }));
}

// A connection of HTTP/2 by hand (RFC 9113), which keeps to no limit of the server.
class RawConnection {
 public:
  struct Frame {
    unsigned type = 0;
    unsigned flags = 0;
    std::string payload = {};
  };

  explicit RawConnection(const std::string& address) {
    is_open_ = ConnectTo(address, socket_);
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    Send(FrameOf(kSettings, 0, 0, ""));
  }

  void Send(const std::string& bytes) {
    is_open_ = is_open_ && send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                               static_cast<ssize_t>(bytes.size());
  }
  static std::string FrameOf(unsigned type, unsigned flags, unsigned stream,
                             const std::string& payload) {
    const auto size = static_cast<unsigned>(payload.size());
    return Number(size, 3) + Number(type, 1) + Number(flags, 1) + Number(stream, 4) + payload;
  }
  static std::string Number(unsigned number, int bytes) {
    std::string text;
    while (bytes-- > 0) text += static_cast<char>(number >> (8 * bytes) & 0xFF);
    return text;
  }
  Frame Read() {
    Frame frame;
    const std::string header = ReadBytes(9);
    if (header.empty()) return frame;
    frame.type = NumberIn(header, 3, 1);
    frame.flags = NumberIn(header, 4, 1);
    frame.payload = ReadBytes(NumberIn(header, 0, 3));
    return frame;
  }
  static unsigned NumberIn(const std::string& text, std::size_t at, std::size_t bytes) {
    unsigned number = 0;
    for (std::size_t i = at; i < at + bytes; ++i) {
      number = number << 8 | static_cast<unsigned char>(text.at(i));
    }
    return number;
  }
  [[nodiscard]] bool is_open() const { return is_open_; }

  static constexpr unsigned kData = 0;
  static constexpr unsigned kHeaders = 1;
  static constexpr unsigned kSettings = 4;
  static constexpr unsigned kEndStream = 1;
  static constexpr unsigned kEndHeaders = 4;

 private:
  std::string ReadBytes(std::size_t count) {
    std::string bytes(count, '\0');
    if (count == 0) return bytes;
    is_open_ = is_open_ && recv(socket_.number(), bytes.data(), count, MSG_WAITALL) ==
                               static_cast<ssize_t>(count);
    return is_open_ ? bytes : "";
  }

  FileHandle socket_ = NewSocket();
  bool is_open_ = false;
};

TEST(ConnectionsTest, OneHasALimitOfOpenCalls) {
  RunningServer running;
  RawConnection raw(running.server().address());
  const RawConnection::Frame settings = raw.Read();
  ASSERT_EQ(settings.type, RawConnection::kSettings);
  constexpr unsigned kMaxConcurrentStreams = 3;  // a setting's name has 2 bytes, its value 4
  unsigned limit = 0;
  for (std::size_t at = 0; at + 6 <= settings.payload.size(); at += 6) {
    if (RawConnection::NumberIn(settings.payload, at, 2) == kMaxConcurrentStreams) {
      limit = RawConnection::NumberIn(settings.payload, at + 2, 4);
    }
  }
  EXPECT_EQ(limit, 128U);
}

v1::CreateStudyRequest EndlessStudy() {
  v1::CreateStudyRequest create;
  create.set_study_id("endless");
  *create.mutable_question() = BigQuestion();
  create.mutable_question()->set_strategy("random");
  create.mutable_question()->set_evaluation_limit(2'000'000'000);
  return create;
}

// A field of a header that the other side does not remember (RFC 7541, 6.2.2).
std::string HeaderField(const std::string& name, const std::string& value) {
  const auto text = [](const std::string& one) {
    return RawConnection::Number(static_cast<unsigned>(one.size()), 1) + one;
  };
  return std::string(1, '\0') + text(name) + text(value);
}

// Nothing makes a client of HTTP/2 keep to the limit of open calls.
TEST(WatchLimitTest, OneConnectionHasALimit) {
  RunningServer running;
  const auto study = running.client().CreateStudy(EndlessStudy());
  ASSERT_TRUE(study.ok()) << study.status();
  v1::WatchStudyRequest request;
  request.set_study_id(study->study().id());
  const std::string message = request.SerializeAsString();
  const std::string body = RawConnection::Number(0, 1) +
                           RawConnection::Number(static_cast<unsigned>(message.size()), 4) +
                           message;
  const std::string header = HeaderField(":method", "POST") + HeaderField(":scheme", "http") +
                             HeaderField(":path", "/meshwright.v1.TuningService/WatchStudy") +
                             HeaderField(":authority", "x") + HeaderField("te", "trailers") +
                             HeaderField("content-type", "application/grpc");
  RawConnection raw(running.server().address());
  constexpr unsigned kWatches = 138;
  for (unsigned i = 0; i < kWatches; ++i) {
    const unsigned stream = 2 * i + 1;
    raw.Send(RawConnection::FrameOf(RawConnection::kHeaders, RawConnection::kEndHeaders, stream,
                                    header) +
             RawConnection::FrameOf(RawConnection::kData, RawConnection::kEndStream, stream, body));
  }
  // A refused call is one frame of headers that ends it.
  int refused_count = 0;
  while (refused_count < 10 && raw.is_open()) {
    const RawConnection::Frame frame = raw.Read();
    if (frame.type == RawConnection::kHeaders && (frame.flags & RawConnection::kEndStream) != 0) {
      ++refused_count;
    }
  }
  EXPECT_EQ(refused_count, 10);
  EXPECT_TRUE(CanCall(running.server().address()));
}

// A watch that is open.
struct OpenWatch {
  grpc::ClientContext context = {};
  std::unique_ptr<grpc::ClientReader<v1::WatchStudyResponse>> reader = {};
};

TEST(WatchLimitTest, FurtherWatchesAreRefusedUntilOneIsClosed) {
  RunningServer running(ServerOptions{.host_watch_limit = 3});
  const auto study = running.client().CreateStudy(EndlessStudy());
  ASSERT_TRUE(study.ok()) << study.status();
  const auto stub = v1::TuningService::NewStub(
      grpc::CreateChannel(running.server().address(), grpc::InsecureChannelCredentials()));
  v1::WatchStudyRequest request;
  request.set_study_id(study->study().id());
  const auto watch = [&](OpenWatch& open) {
    open.reader = stub->WatchStudy(&open.context, request);
    v1::WatchStudyResponse event;
    return open.reader->Read(&event);
  };
  std::vector<OpenWatch> watches(3);
  for (OpenWatch& open : watches) EXPECT_TRUE(watch(open));
  OpenWatch further;
  EXPECT_FALSE(watch(further));
  const absl::Status refused = FromGrpc(further.reader->Finish());
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(Reason(refused), "TOO_MANY_WATCHES");
  watches.front().context.TryCancel();
  EXPECT_TRUE(WaitFor([&] {
    OpenWatch again;
    const bool is_open = watch(again);
    again.context.TryCancel();
    again.reader->Finish();
    return is_open;
  }));
  for (OpenWatch& open : watches) open.context.TryCancel();
  for (OpenWatch& open : watches) open.reader->Finish();
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
