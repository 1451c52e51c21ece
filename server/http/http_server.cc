#include "server/http/http_server.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "server/http/detachable.h"
#include "server/http/event_queue.h"
#include "server/http/listen_address.h"

namespace meshwright {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using beast::error_code;

class Session;

// The state that the connections of a server share.
struct Shared {
  HttpOptions options = {};
  HttpHandler handler = {};
  std::atomic<bool> is_draining = false;  // no connection takes another request
  std::mutex mutex = {};                  // guards the members below
  std::condition_variable left = {};      // a connection has ended
  bool is_closed = false;
  std::set<std::shared_ptr<Session>> sessions = {};
};

std::string TextOf(beast::string_view text) { return {text.data(), text.size()}; }

HttpRequest ToRequest(const http::request<http::string_body>& message) {
  HttpRequest request;
  request.method = TextOf(message.method_string());
  const std::string target = TextOf(message.target());
  const std::size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  request.host = TextOf(message[http::field::host]);
  request.forwarded_host = TextOf(message["X-Forwarded-Host"]);
  if (message.count(http::field::origin) > 0) request.origin = TextOf(message[http::field::origin]);
  request.if_none_match = TextOf(message[http::field::if_none_match]);
  request.last_event_id = TextOf(message["Last-Event-ID"]);
  request.content_type = TextOf(message[http::field::content_type]);
  request.if_match = TextOf(message[http::field::if_match]);
  request.authorization = TextOf(message[http::field::authorization]);
  request.body = message.body();
  request.accepts_gzip =
      TextOf(message[http::field::accept_encoding]).find("gzip") != std::string::npos;
  return request;
}

// The end of a connection that a source of events holds.
class SessionEvents final : public EventWriter {
 public:
  explicit SessionEvents(std::shared_ptr<Detachable<Session>> end) : end_(std::move(end)) {}
  void Write(std::string event) override;
  void End() override;

 private:
  const std::shared_ptr<Detachable<Session>> end_;
};

// One connection. All members without a mutex are used on the strand of its socket only. It is
// shared, because each pending operation keeps it alive.
class Session final : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, Shared& shared)
      : shared_(shared),
        stream_(std::move(socket)),
        heartbeat_(stream_.get_executor()),
        queue_(shared.options.event_limit) {}
  ~Session() {
    if (end_ != nullptr) end_->Detach();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Start() {
    // Events and answers go out at once, not with what follows them.
    error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->Read(); });
  }
  void Stop() {
    asio::post(stream_.get_executor(), [self = shared_from_this()] { self->Close(); });
  }

  // Closes the connection as soon as no request is worked on; a stream of events ends after those
  // that wait to be sent.
  void Drain() {
    asio::post(stream_.get_executor(), [self = shared_from_this()] {
      if (!self->is_busy_) return self->Close();
      self->keeps_alive_ = false;
      if (self->is_open_) self->End();
    });
  }

  // These may be called from any thread.
  void Write(std::string event) {
    queue_.Push(std::move(event));
    PostSendNext();
  }
  void End() {
    queue_.End();
    PostSendNext();
  }
  void PostReply(HttpResponse response) {
    auto self = weak_from_this().lock();
    if (self == nullptr) return;
    asio::post(stream_.get_executor(),
               [self = std::move(self), response = std::move(response)]() mutable {
                 self->TakeReply(std::move(response));
               });
  }

 private:
  // Nobody holds a connection that is being destroyed.
  void PostSendNext() {
    auto self = weak_from_this().lock();
    if (self == nullptr) return;
    asio::post(stream_.get_executor(), [self = std::move(self)] { self->SendNext(); });
  }

  void Read() {
    is_busy_ = false;
    if (shared_.is_draining) return Close();
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_.options.header_limit));
    parser_->body_limit(shared_.options.body_limit);
    stream_.expires_after(shared_.options.idle);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](error_code error, std::size_t /*size*/) {
                              self->OnHeader(error);
                            });
  }

  // Reads the body, of methods that have one.
  void OnHeader(error_code error) {
    is_busy_ = true;
    if (error || parser_->is_done()) return OnRead(error);
    const http::verb method = parser_->get().method();
    const bool takes_body = method == http::verb::post || method == http::verb::patch;
    if (!takes_body) return Refuse(413, "only POST and PATCH have a body");
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code read_error, std::size_t /*size*/) {
                       self->OnRead(read_error);
                     });
  }

  void OnRead(error_code error) {
    if (error == http::error::header_limit) return Refuse(431, "the header is too large");
    if (error == http::error::body_limit) {
      return Refuse(
          413, fmt::format("the body is too large; at most {} bytes", shared_.options.body_limit));
    }
    if (error && error.category() == http::make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message) {
      return Refuse(400, "not HTTP/1.1");
    }
    if (error) return Close();
    const http::request<http::string_body>& message = parser_->get();
    is_head_ = message.method() == http::verb::head;
    keeps_alive_ = message.keep_alive() && !shared_.is_draining;
    version_ = message.version();
    HttpAnswer answer = AnswerTo(ToRequest(message));
    if (answer.open_reply) {
      Await(answer.open_reply);
    } else if (answer.open_events && !is_head_) {
      Stream(answer);
    } else {
      Send(std::move(answer.response));
    }
  }

  // An exception of the handler fails the one request, not the server.
  HttpAnswer AnswerTo(const HttpRequest& request) const {
    try {
      return shared_.handler(request);
    } catch (const std::exception& e) {
      spdlog::error("event=http_request_failed what=\"{}\"", e.what());
      return {
          .response = {.status = 500, .content_type = "text/plain", .body = "internal error\n"}};
    }
  }

  void Refuse(int status, std::string reason) {
    keeps_alive_ = false;
    Send({.status = status, .content_type = "text/plain", .body = std::move(reason) + "\n"});
  }

  template <typename Body>
  void FillHeader(http::response<Body>& message, const HttpResponse& response) const {
    message.version(version_);
    message.result(static_cast<unsigned>(response.status));
    const std::string& type = response.content_type;
    if (!type.empty()) message.set(http::field::content_type, type);
    for (const auto& [name, value] : response.fields) message.set(name, value);
    message.keep_alive(keeps_alive_);
  }

  void Send(HttpResponse response) {
    auto message = std::make_shared<http::response<http::string_body>>();
    FillHeader(*message, response);
    message->content_length(response.body.size());
    const bool has_body = !is_head_ && response.status != 304;
    if (has_body) message->body() = std::move(response.body);
    stream_.expires_after(shared_.options.idle);
    const auto on_written = [self = shared_from_this(), message](error_code error,
                                                                 std::size_t /*size*/) {
      if (error || !self->keeps_alive_) return self->Close();
      self->Read();
    };
    if (has_body) return http::async_write(stream_, *message, on_written);
    // Only the header is sent, with the length that the body would have.
    auto serializer = std::make_shared<http::response_serializer<http::string_body>>(*message);
    http::async_write_header(
        stream_, *serializer,
        [serializer, on_written](error_code error, std::size_t size) { on_written(error, size); });
  }

  // Waits for a response that is worked on elsewhere, or for the reader to go away.
  void Await(const OpenReply& open) {
    stream_.expires_never();
    ++wait_number_;
    is_waiting_ = true;
    WaitForReaderToGo();
    end_ = std::make_shared<Detachable<Session>>(*this);
    on_gone_ = open([end = end_](HttpResponse response) {
      end->Use([&response](Session& session) { session.PostReply(std::move(response)); });
    });
  }

  // Closes the connection if it ends while a reply is awaited. Bytes are the next request, which is
  // read after the reply.
  void WaitForReaderToGo() {
    stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this(),
                                                         number = wait_number_](error_code error) {
      if (!self->is_waiting_ || self->wait_number_ != number) return;
      if (!error) {
        error_code found;
        self->stream_.socket().non_blocking(true, found);
        char byte = 0;
        self->stream_.socket().receive(asio::buffer(&byte, 1), tcp::socket::message_peek, found);
        // The wait also ends for bytes that were read before it began.
        if (found == asio::error::would_block) return self->WaitForReaderToGo();
        if (!found) return;
      }
      self->Close();
    });
  }

  void TakeReply(HttpResponse response) {
    if (is_closed_ || !is_waiting_) return;
    is_waiting_ = false;
    on_gone_ = nullptr;
    end_->Detach();
    error_code ignored;
    stream_.socket().cancel(ignored);
    Send(std::move(response));
  }

  // Sends the header, then events as they come. The end of the connection ends the body.
  void Stream(const HttpAnswer& answer) {
    keeps_alive_ = false;
    auto message = std::make_shared<http::response<http::empty_body>>();
    FillHeader(*message, answer.response);
    auto serializer = std::make_shared<http::response_serializer<http::empty_body>>(*message);
    stream_.expires_after(shared_.options.idle);
    http::async_write_header(stream_, *serializer,
                             [self = shared_from_this(), message, serializer,
                              open = answer.open_events](error_code error, std::size_t /*size*/) {
                               if (error || self->is_closed_) return self->Close();
                               self->is_open_ = true;
                               self->WaitForEnd();
                               self->Beat();
                               self->end_ = std::make_shared<Detachable<Session>>(*self);
                               self->on_gone_ = open(std::make_shared<SessionEvents>(self->end_));
                               if (self->shared_.is_draining) self->End();
                               self->SendNext();
                             });
  }

  // A browser sends nothing more; the read ends when it goes away.
  void WaitForEnd() {
    stream_.expires_never();
    stream_.async_read_some(asio::buffer(unread_),
                            [self = shared_from_this()](error_code error, std::size_t /*size*/) {
                              if (error) return self->Close();
                              self->WaitForEnd();
                            });
  }

  void Beat() {
    heartbeat_.expires_after(shared_.options.heartbeat);
    heartbeat_.async_wait([self = shared_from_this()](error_code error) {
      if (error || self->is_closed_) return;
      self->queue_.PushIfEmpty(": \n\n");
      self->SendNext();
      self->Beat();
    });
  }

  void SendNext() {
    if (is_closed_ || is_sending_ || !is_open_) return;
    const bool goes_on = queue_.Take(sent_);
    if (sent_.empty() && goes_on) return;
    if (sent_.empty()) return Close();
    is_sending_ = true;
    stream_.expires_after(shared_.options.idle);
    asio::async_write(stream_, asio::buffer(sent_),
                      [self = shared_from_this()](error_code error, std::size_t /*size*/) {
                        self->is_sending_ = false;
                        if (error) return self->Close();
                        self->SendNext();
                      });
  }

  void Close() {
    if (is_closed_) return;
    is_closed_ = true;
    heartbeat_.cancel();
    if (on_gone_) std::exchange(on_gone_, nullptr)();
    if (end_ != nullptr) end_->Detach();
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.close();
    const std::lock_guard lock(shared_.mutex);
    shared_.sessions.erase(shared_from_this());
    shared_.left.notify_all();
  }

  Shared& shared_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_ = {};
  asio::steady_timer heartbeat_;
  std::array<char, 512> unread_ = {};
  std::string sent_ = {};
  std::shared_ptr<Detachable<Session>> end_ = {};  // held by sources of events and replies
  std::function<void()> on_gone_ = {};
  int wait_number_ = 0;
  bool is_waiting_ = false;  // for a reply
  unsigned version_ = 11;
  bool is_busy_ = false;  // with a request whose header was read
  bool is_head_ = false;
  bool keeps_alive_ = false;
  bool is_open_ = false;  // events flow
  bool is_sending_ = false;
  bool is_closed_ = false;

  EventQueue queue_;
};

void SessionEvents::Write(std::string event) {
  end_->Use([&event](Session& session) { session.Write(std::move(event)); });
}

void SessionEvents::End() {
  end_->Use([](Session& session) { session.End(); });
}

}  // namespace

struct HttpServer::State {
  State(const HttpOptions& options, HttpHandler handler)
      : shared{.options = options, .handler = std::move(handler)},
        loop(options.thread_count),
        acceptor(asio::make_strand(loop)) {}

  absl::Status Listen() {
    ASSIGN_OR_RETURN(const ListenAddress listen,
                     ReadListenAddress(shared.options.listen, shared.options.flag));
    error_code error;
    const tcp::endpoint endpoint(asio::ip::make_address(listen.host, error), listen.port);
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return WithReason(absl::UnavailableError(fmt::format("cannot listen on '{}': {}",
                                                           shared.options.listen, error.message())),
                        "CANNOT_LISTEN");
    }
    const std::string host = shared.options.listen.substr(0, shared.options.listen.rfind(':'));
    address = fmt::format("{}:{}", host, acceptor.local_endpoint().port());
    Accept();
    for (int i = 0; i < shared.options.thread_count; ++i) {
      threads.emplace_back([this] { RunLoop(); });
    }
    return absl::OkStatus();
  }

  // Runs the loop to its end, also past an exception, which ends the connection that it came from.
  void RunLoop() {
    while (!loop.stopped()) {
      try {
        loop.run();
        return;
      } catch (const std::exception& e) {
        spdlog::error("event=http_connection_failed what=\"{}\"", e.what());
      }
    }
  }

  void Accept() {
    acceptor.async_accept(asio::make_strand(loop), [this](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
      if (!error) Serve(std::move(socket));
      Accept();
    });
  }

  void Serve(tcp::socket socket) {
    auto session = std::make_shared<Session>(std::move(socket), shared);
    {
      const std::lock_guard lock(shared.mutex);
      const bool is_full = std::ssize(shared.sessions) >= shared.options.connection_limit;
      if (shared.is_closed || is_full) return;  // the socket closes with the session
      shared.sessions.insert(session);
    }
    session->Start();
  }

  // Takes no further connections, and returns those that there are.
  std::set<std::shared_ptr<Session>> StopAccepting() {
    asio::post(acceptor.get_executor(), [this] {
      error_code ignored;
      acceptor.close(ignored);
    });
    const std::lock_guard lock(shared.mutex);
    shared.is_closed = true;
    return shared.sessions;
  }

  void Drain() {
    shared.is_draining = true;
    for (const auto& session : StopAccepting()) session->Drain();
  }

  void Stop(std::chrono::milliseconds patience) {
    const std::set<std::shared_ptr<Session>> sessions = StopAccepting();
    if (patience > std::chrono::milliseconds(0)) {
      std::unique_lock lock(shared.mutex);
      shared.left.wait_for(lock, patience, [this] { return shared.sessions.empty(); });
    }
    for (const auto& session : sessions) session->Stop();
    threads.clear();  // joins: the loop ends when no connection is left
  }

  Shared shared;
  asio::io_context loop;
  tcp::acceptor acceptor;
  std::string address = {};
  std::vector<std::jthread> threads = {};  // last, because they use all members above
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpOptions& options,
                                                              HttpHandler handler) {
  auto state = std::make_unique<State>(options, std::move(handler));
  RETURN_IF_ERROR(state->Listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() { Shutdown(); }

void HttpServer::Drain() { state_->Drain(); }

const std::string& HttpServer::address() const { return state_->address; }

void HttpServer::Shutdown(std::chrono::milliseconds patience) { state_->Stop(patience); }

}  // namespace meshwright
