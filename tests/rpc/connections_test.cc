// Tests that a client with many connections keeps nobody else out.
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
#include "server/process/descriptor.h"
#include "server/rpc/client/client.h"
#include "tests/events/wait_for.h"
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

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
