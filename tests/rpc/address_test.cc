#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "recorder/recorder.h"
#include "server/convert/convert.h"
#include "server/engine/engine.h"
#include "server/rpc/client/client.h"
#include "server/rpc/server.h"
#include "server/tuner/question/problem.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(ServerAddress, OtherHostsAreRefusedUnlessTold) {
  const TemporaryFolder folder;
  const Knowledge knowledge = *LoadKnowledge("");
  auto recorder = Recorder::Open({.path = folder.File("history.db")});
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  const auto engine = *Engine::Start(*std::move(recorder), knowledge, ProtobufCodec(knowledge));
  for (const char* listen : {"0.0.0.0:0", "[::]:0", "example.org:0", "nonsense", "10.0.0.1:0"}) {
    const auto server = Server::Start({.listen = listen}, knowledge, *engine);
    EXPECT_TRUE(absl::IsInvalidArgument(server.status())) << listen;
  }
  EXPECT_TRUE(
      Server::Start({.listen = "0.0.0.0:0", .allows_other_hosts = true}, knowledge, *engine).ok());
  const auto first = Server::Start({.listen = "127.0.0.1:0"}, knowledge, *engine);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Server::Start({.listen = (*first)->address()}, knowledge, *engine);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << "one port, two servers";
  const std::string socket = "unix:" + folder.File("socket");
  const auto local = Server::Start({.listen = socket}, knowledge, *engine);
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_EQ((*local)->address(), socket);
  EXPECT_TRUE(Client::Connect(socket).ok());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
