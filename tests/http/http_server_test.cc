#include "server/http/http_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

namespace asio = boost::asio;
using asio::ip::tcp;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A connection that sends what it is told and reads what comes.
class Connection {
 public:
  explicit Connection(const std::string& address) {
    const std::size_t colon = address.rfind(':');
    const int port = std::stoi(address.substr(colon + 1));
    socket_.connect({asio::ip::make_address("127.0.0.1"), static_cast<std::uint16_t>(port)});
  }
  void Send(const std::string& text) { asio::write(socket_, asio::buffer(text)); }
  void Get(const std::string& target, const std::string& fields = "") {
    Send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", target, fields));
  }
  // Reads up to and with the text, or to the end of the connection.
  std::string ReadTo(const std::string& text) {
    boost::system::error_code error;
    const std::size_t size = asio::read_until(socket_, buffer_, text, error);
    return Take(error ? buffer_.size() : size);
  }
  std::string ReadAll() {
    boost::system::error_code error;
    asio::read(socket_, buffer_, error);
    return Take(buffer_.size());
  }
  // Reads an answer whose length its header states.
  std::string ReadAnswer() {
    std::string answer = ReadTo("\r\n\r\n");
    const std::size_t at = answer.find("Content-Length: ");
    if (at == std::string::npos) return answer;
    const std::size_t length = std::stoul(answer.substr(at + 16));
    if (buffer_.size() < length) {
      asio::read(socket_, buffer_, asio::transfer_exactly(length - buffer_.size()));
    }
    return answer + Take(length);
  }

 private:
  std::string Take(std::size_t size) {
    const auto* const data = static_cast<const char*>(buffer_.data().data());
    std::string text(data, size);
    buffer_.consume(size);
    return text;
  }

  asio::io_context loop_;
  tcp::socket socket_{loop_};
  asio::streambuf buffer_;
};

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
  Connection connection(server->address());
  connection.Get("/a?b=1");
  EXPECT_THAT(connection.ReadAnswer(), HasSubstr("GET /a ? b=1 from localhost"));
  connection.Get("/second");
  const std::string second = connection.ReadAnswer();
  EXPECT_THAT(second, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(second, HasSubstr("GET /second ? "));
}

TEST(HttpServerTest, HeadAndNotModifiedHaveNoBody) {
  const auto server = Serve([](const HttpRequest& request) {
    HttpAnswer answer = Echo(request);
    if (request.if_none_match == "\"x\"") answer.response = {.status = 304};
    return answer;
  });
  Connection connection(server->address());
  connection.Send("HEAD /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string head = connection.ReadAll();
  EXPECT_THAT(head, HasSubstr("Content-Length: 25"));  // of "HEAD /a ?  from localhost"
  EXPECT_THAT(head, testing::EndsWith("\r\n\r\n"));
  Connection other(server->address());
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
  Connection connection(server->address());
  connection.Get("/bad");
  const std::string failed = connection.ReadAnswer();
  EXPECT_THAT(failed, StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(failed, Not(HasSubstr("no luck")));
  connection.Get("/good");
  EXPECT_THAT(connection.ReadAnswer(), HasSubstr("GET /good"));
}

TEST(HttpServerTest, WhatIsTooLargeOrNotHttpIsRefused) {
  const auto server = Serve(Echo);
  Connection large(server->address());
  large.Get("/", fmt::format("X-Large: {}\r\n", std::string(20000, 'x')));
  EXPECT_THAT(large.ReadAll(), StartsWith("HTTP/1.1 431"));
  Connection body(server->address());
  body.Send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_THAT(body.ReadAll(), StartsWith("HTTP/1.1 413"));
  Connection wrong(server->address());
  wrong.Send("hello\r\n\r\n");
  EXPECT_THAT(wrong.ReadAll(), StartsWith("HTTP/1.1 400"));
}

TEST(HttpServerTest, ASilentConnectionIsClosed) {
  const auto server = Serve(Echo, {.idle = std::chrono::milliseconds(50)});
  Connection connection(server->address());
  connection.Send("GET / HT");
  EXPECT_EQ(connection.ReadAll(), "");
}

TEST(HttpServerTest, TooManyConnectionsAreClosedAtOnce) {
  const auto server = Serve(Echo, {.connection_limit = 1});
  Connection first(server->address());
  first.Get("/");
  first.ReadAnswer();
  Connection second(server->address());
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
  Connection connection(server->address());
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
  Connection connection(server->address());
  connection.Get("/");
  connection.ReadTo("\r\n\r\n");
  EXPECT_EQ(connection.ReadTo("\n\n"), ": \n\n");
  EXPECT_EQ(connection.ReadTo("\n\n"), ": \n\n");
}

TEST(HttpServerTest, TheWriterLearnsThatItsReaderHasGone) {
  Stream stream;
  const auto server = Serve(stream.Handler());
  {
    Connection connection(server->address());
    connection.Get("/");
    stream.opened.get_future().get();
  }
  stream.gone.get_future().get();
}

TEST(HttpServerTest, AReaderThatFallsBehindIsCutOff) {
  Stream stream;
  const auto server = Serve(stream.Handler(), {.event_limit = 2});
  Connection connection(server->address());
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
  Connection connection(server->address());
  connection.Get("/");
  stream.opened.get_future().get();
  server->Shutdown();
  stream.gone.get_future().get();
  EXPECT_THAT(connection.ReadAll(), Not(HasSubstr("data")));
  server->Shutdown();  // changes nothing
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
