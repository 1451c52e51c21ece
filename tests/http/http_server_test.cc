#include "server/http/http_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "server/http/starting.h"
#include "tests/http/connection.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

HttpAnswer Echo(const HttpRequest& request) {
  return {.response = {.content_type = "text/plain",
                       .body = fmt::format("{} {} ? {} from {}", request.method, request.path,
                                           request.query, request.host)}};
}

std::unique_ptr<HttpServer> Serve(HttpHandler handler, HttpOptions options = {}) {
  options.listen = "127.0.0.1:0";
  auto server = HttpServer::Start(options, std::move(handler));
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(HttpServerTest, OneConnectionAsksSeveralTimes) {
  const auto server = Serve(Echo);
  HttpConnection connection(server->address());
  connection.Get("/a?b=1");
  EXPECT_THAT(connection.ReadAnswer(), HasSubstr("GET /a ? b=1 from localhost"));
  connection.Get("/second");
  const std::string second = connection.ReadAnswer();
  EXPECT_THAT(second, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(second, HasSubstr("GET /second ? "));
}

TEST(HttpServerTest, AnswersBeforeItIsReady) {
  StartingGate starting;
  const auto server =
      Serve([&starting](const HttpRequest& request) { return starting.Answer(request); });
  HttpConnection connection(server->address());
  connection.Get("/v1/studies");
  const std::string early = connection.ReadAnswer();
  EXPECT_THAT(early, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(early, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_THAT(early, HasSubstr("SERVER_STARTING"));
  starting.PassTo(Echo);
  connection.Get("/v1/studies");
  EXPECT_THAT(connection.ReadAnswer(), HasSubstr("GET /v1/studies ? "));
}

TEST(HttpServerTest, HeadAndNotModifiedHaveNoBody) {
  const auto server = Serve([](const HttpRequest& request) {
    HttpAnswer answer = Echo(request);
    if (request.if_none_match == "\"x\"") answer.response = {.status = 304};
    return answer;
  });
  HttpConnection connection(server->address());
  connection.Send("HEAD /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string head = connection.ReadAll();
  EXPECT_THAT(head, HasSubstr("Content-Length: 25"));  // of "HEAD /a ?  from localhost"
  EXPECT_THAT(head, testing::EndsWith("\r\n\r\n"));
  HttpConnection other(server->address());
  other.Get("/a", "If-None-Match: \"x\"\r\nConnection: close\r\n");
  const std::string unchanged = other.ReadAll();
  EXPECT_THAT(unchanged, StartsWith("HTTP/1.1 304"));
  EXPECT_THAT(unchanged, testing::EndsWith("\r\n\r\n"));
}

// The request that fails the handler fails alone.
TEST(HttpServerTest, AnExceptionEndsOneRequest) {
  const auto server = Serve([](const HttpRequest& request) {
    if (request.path == "/bad") throw std::runtime_error("no luck");
    return Echo(request);
  });
  HttpConnection connection(server->address());
  connection.Get("/bad");
  const std::string failed = connection.ReadAnswer();
  EXPECT_THAT(failed, StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(failed, Not(HasSubstr("no luck")));
  connection.Get("/good");
  EXPECT_THAT(connection.ReadAnswer(), HasSubstr("GET /good"));
}

TEST(HttpServerTest, WhatIsTooLargeOrNotHttpIsRefused) {
  const auto server = Serve(Echo);
  HttpConnection large(server->address());
  large.Get("/", fmt::format("X-Large: {}\r\n", std::string(20000, 'x')));
  EXPECT_THAT(large.ReadAll(), StartsWith("HTTP/1.1 431"));
  for (const char* method : {"GET", "PUT", "DELETE"}) {
    HttpConnection body(server->address());
    body.Send(method, "/", "hello");
    EXPECT_THAT(body.ReadAll(), StartsWith("HTTP/1.1 413")) << method;
  }
  HttpConnection wrong(server->address());
  wrong.Send("hello\r\n\r\n");
  EXPECT_THAT(wrong.ReadAll(), StartsWith("HTTP/1.1 400"));
}

TEST(HttpServerTest, PostAndPatchHaveABodyUpToItsLimit) {
  const auto server = Serve(
      [](const HttpRequest& request) {
        return HttpAnswer{
            .response = {.body = fmt::format("{} {} of {} if {}", request.method, request.body,
                                             request.content_type, request.if_match)}};
      },
      {.body_limit = 10});
  HttpConnection connection(server->address());
  for (const char* method : {"POST", "PATCH"}) {
    connection.Send(method, "/", "0123456789", "Content-Type: a/b\r\nIf-Match: \"7\"\r\n");
    EXPECT_THAT(connection.ReadAnswer(),
                testing::EndsWith(fmt::format("{} 0123456789 of a/b if \"7\"", method)));
  }
  connection.Send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  connection.Send("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_THAT(connection.ReadAnswer(), HasSubstr("POST abcde of "));
  connection.Send("POST", "/", "0123456789x");
  EXPECT_THAT(connection.ReadAll(), StartsWith("HTTP/1.1 413"));
  HttpConnection chunked(server->address());
  chunked.Send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  chunked.Send("b\r\n0123456789x\r\n0\r\n\r\n");
  EXPECT_THAT(chunked.ReadAll(), StartsWith("HTTP/1.1 413"));
}

// Hands the reply to the next request to the test.
struct Later {
  HttpHandler Handler() {
    return [this](const HttpRequest& request) {
      if (request.path != "/later") return Echo(request);
      return HttpAnswer{.open_reply = [this](Reply reply) {
        opened.set_value(std::move(reply));
        return [this] { gone.set_value(); };
      }};
    };
  }
  std::promise<Reply> opened;
  std::promise<void> gone;
};

// Other connections are answered meanwhile, although there is only one thread.
TEST(HttpServerTest, AReplyMayComeLater) {
  Later later;
  const auto server = Serve(later.Handler(), {.thread_count = 1});
  HttpConnection connection(server->address());
  connection.Get("/later");
  const Reply reply = later.opened.get_future().get();
  connection.Get("/pipelined");
  HttpConnection other(server->address());
  other.Get("/other");
  EXPECT_THAT(other.ReadAnswer(), HasSubstr("GET /other"));
  reply({.body = "at last"});
  EXPECT_THAT(connection.ReadAnswer(), testing::EndsWith("at last"));
  EXPECT_THAT(connection.ReadAnswer(), HasSubstr("GET /pipelined"));
  reply({.body = "twice"});  // changes nothing
  connection.Get("/still");
  EXPECT_THAT(connection.ReadAnswer(), HasSubstr("GET /still"));
}

// Bytes of the request that are noticed late must not look like the end of the connection.
TEST(HttpServerTest, ABodyMayComeInPiecesBeforeALateReply) {
  std::vector<std::jthread> workers;
  const auto server = Serve([&workers](const HttpRequest&) {
    return HttpAnswer{.open_reply = [&workers](Reply reply) {
      workers.emplace_back([reply = std::move(reply)] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        reply({.body = "at last"});
      });
      return [] {};
    }};
  });
  HttpConnection connection(server->address());
  for (int i = 0; i < 300; ++i) {
    connection.Send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n");
    for (int piece = 0; piece < 8; ++piece) connection.Send("x");
    ASSERT_THAT(connection.ReadAnswer(), testing::EndsWith("at last")) << i;
  }
}

TEST(HttpServerTest, AReplyToNobodyIsDropped) {
  Later later;
  Reply reply;
  {
    const auto server = Serve(later.Handler());
    {
      HttpConnection connection(server->address());
      connection.Get("/later");
      reply = later.opened.get_future().get();
    }
    later.gone.get_future().get();
    reply({.body = "to nobody"});
  }
  reply({.body = "after the server"});
}

TEST(HttpServerTest, ShutdownTellsWhoeverWorksOnAReply) {
  Later later;
  const auto server = Serve(later.Handler());
  HttpConnection connection(server->address());
  connection.Get("/later");
  const Reply reply = later.opened.get_future().get();
  server->Shutdown();
  later.gone.get_future().get();
  reply({.body = "too late"});
  EXPECT_EQ(connection.ReadAll(), "");
}

// A request that is worked on is answered; nothing else is begun.
TEST(HttpServerTest, DrainsWhatIsWorkedOn) {
  Later later;
  const auto server = Serve(later.Handler());
  HttpConnection busy(server->address());
  busy.Get("/later");
  const Reply reply = later.opened.get_future().get();
  HttpConnection idle(server->address());
  server->Drain();
  EXPECT_EQ(idle.ReadAll(), "");
  reply({.body = "in time"});
  const std::string answer = busy.ReadAll();
  EXPECT_THAT(answer, HasSubstr("in time"));
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
  server->Shutdown(std::chrono::minutes(10));  // returns at once: no connection is left
}

TEST(HttpServerTest, ShutdownWaitsForDrainedAnswersOnlySoLong) {
  Later later;
  const auto server = Serve(later.Handler());
  HttpConnection connection(server->address());
  connection.Get("/later");
  const Reply reply = later.opened.get_future().get();
  server->Drain();
  server->Shutdown(std::chrono::milliseconds(1));
  later.gone.get_future().get();
  EXPECT_EQ(connection.ReadAll(), "");
}

TEST(HttpServerTest, ASilentConnectionIsClosed) {
  const auto server = Serve(Echo, {.idle = std::chrono::milliseconds(50)});
  HttpConnection connection(server->address());
  connection.Send("GET / HT");
  EXPECT_EQ(connection.ReadAll(), "");
}

TEST(HttpServerTest, TooManyConnectionsAreClosedAtOnce) {
  const auto server = Serve(Echo, {.connection_limit = 1});
  HttpConnection first(server->address());
  first.Get("/");
  first.ReadAnswer();
  HttpConnection second(server->address());
  EXPECT_EQ(second.ReadAll(), "");
  first.Get("/still");
  EXPECT_THAT(first.ReadAnswer(), HasSubstr("GET /still"));
}

// Hands the writer of the next stream to the test.
struct Stream {
  HttpHandler Handler() {
    return [this](const HttpRequest&) {
      return HttpAnswer{.response = {.content_type = "text/event-stream"},
                        .open_events = [this](std::shared_ptr<EventWriter> writer) {
                          opened.set_value(std::move(writer));
                          return [this] { gone.set_value(); };
                        }};
    };
  }
  std::promise<std::shared_ptr<EventWriter>> opened;
  std::promise<void> gone;
};

TEST(HttpServerTest, EventsComeAsTheyAreWritten) {
  Stream stream;
  const auto server = Serve(stream.Handler());
  HttpConnection connection(server->address());
  connection.Get("/");
  const auto writer = stream.opened.get_future().get();
  EXPECT_THAT(connection.ReadTo("\r\n\r\n"), HasSubstr("Content-Type: text/event-stream"));
  writer->Write("data: 1\n\n");
  EXPECT_EQ(connection.ReadTo("\n\n"), "data: 1\n\n");
  writer->Write("data: 2\n\n");
  writer->Write("data: 3\n\n");
  writer->End();
  writer->Write("data: late\n\n");
  EXPECT_EQ(connection.ReadAll(), "data: 2\n\ndata: 3\n\n");
  stream.gone.get_future().get();
}

TEST(HttpServerTest, AQuietStreamBeats) {
  Stream stream;
  const auto server = Serve(stream.Handler(), {.heartbeat = std::chrono::milliseconds(20)});
  HttpConnection connection(server->address());
  connection.Get("/");
  connection.ReadTo("\r\n\r\n");
  EXPECT_EQ(connection.ReadTo("\n\n"), ": \n\n");
  EXPECT_EQ(connection.ReadTo("\n\n"), ": \n\n");
}

TEST(HttpServerTest, TheWriterLearnsThatItsReaderHasGone) {
  Stream stream;
  const auto server = Serve(stream.Handler());
  {
    HttpConnection connection(server->address());
    connection.Get("/");
    stream.opened.get_future().get();
  }
  stream.gone.get_future().get();
}

TEST(HttpServerTest, AReaderThatFallsBehindIsCutOff) {
  Stream stream;
  const auto server = Serve(stream.Handler(), {.event_limit = 2});
  HttpConnection connection(server->address());
  connection.Get("/");
  const auto writer = stream.opened.get_future().get();
  connection.ReadTo("\r\n\r\n");
  // More than a socket's buffers take while nobody reads.
  const std::string large = "data: " + std::string(1 << 20, 'x') + "\n\n";
  for (int i = 0; i < 64; ++i) writer->Write(large);
  EXPECT_LT(connection.ReadAll().size(), 64 * large.size());
  stream.gone.get_future().get();
}

TEST(HttpServerTest, ShutdownEndsStreamsAndTellsTheirWriters) {
  Stream stream;
  const auto server = Serve(stream.Handler());
  HttpConnection connection(server->address());
  connection.Get("/");
  stream.opened.get_future().get();
  server->Shutdown();
  stream.gone.get_future().get();
  EXPECT_THAT(connection.ReadAll(), Not(HasSubstr("data")));
  server->Shutdown();  // changes nothing
}

TEST(HttpServerTest, DrainEndsStreamsAfterWhatWaits) {
  Stream stream;
  const auto server = Serve(stream.Handler());
  HttpConnection connection(server->address());
  connection.Get("/");
  const auto writer = stream.opened.get_future().get();
  writer->Write("data: last\n\n");
  server->Drain();
  EXPECT_THAT(connection.ReadAll(), HasSubstr("data: last"));
  stream.gone.get_future().get();
}

TEST(HttpServerTest, OnlyThisMachineIsServed) {
  for (const char* listen : {"0.0.0.0:80", "10.0.0.1:80", "example.org:80", "8080", "127.0.0.1",
                             "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:80x", "[::]:80"}) {
    const auto server = HttpServer::Start({.listen = listen}, Echo);
    EXPECT_TRUE(absl::IsInvalidArgument(server.status())) << listen << ": " << server.status();
    EXPECT_THAT(std::string(server.status().message()), HasSubstr(listen));
  }
  const auto first = Serve(Echo);
  const auto second = HttpServer::Start({.listen = first->address()}, Echo);
  EXPECT_EQ(Reason(second.status()), "CANNOT_LISTEN");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
