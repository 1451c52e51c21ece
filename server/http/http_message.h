#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace meshwright {

// A request as far as the handlers know it. Only POST and PATCH have a body.
struct HttpRequest {
  std::string method = "GET";              // any; the handler refuses those that change things
  std::string path = "/";                  // as sent: percent-encoded, without the query
  std::string query = {};                  // what follows '?'
  std::string host = {};                   // the Host field
  std::string forwarded_host = {};         // the X-Forwarded-Host field, which proxies set
  std::optional<std::string> origin = {};  // the Origin field
  std::string if_none_match = {};
  std::string last_event_id = {};  // the last event that a browser has seen
  bool accepts_gzip = false;
  std::string content_type = {};  // the Content-Type field
  std::string if_match = {};
  std::string authorization = {};  // the Authorization field
  std::string body = {};
};

struct HttpResponse {
  int status = 200;
  std::string content_type = {};
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> fields = {};  // further header fields
};

// The sending end of an answer of server-sent events. May be used from any thread.
class EventWriter {
 public:
  EventWriter() = default;
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;
  virtual ~EventWriter() = default;
  // Queues an event in the form of the standard, with its blank line. A reader that falls too far
  // behind is cut off; browsers come back with the last id that they have seen.
  virtual void Write(std::string event) = 0;
  // Ends the answer once all events are sent.
  virtual void End() = 0;
};

// Begins to write events; the returned function is called once, when the reader is gone.
using OpenEvents = std::function<std::function<void()>(std::shared_ptr<EventWriter>)>;

// Takes the response to one request; may be called from any thread, once.
using Reply = std::function<void(HttpResponse)>;
// Begins to work on a response on a thread of its own; the returned function is called at most
// once, if the reader goes away before the reply. Nothing reaches the connection then.
using OpenReply = std::function<std::function<void()>(Reply)>;

struct HttpAnswer {
  HttpResponse response = {};
  OpenEvents open_events = {};  // if set, the body is events, and response.body is empty
  OpenReply open_reply = {};    // if set, it gives the response instead
};

// Answers a request; called from any thread of the server, several at a time. It must not take
// long, because connections share the threads: long work goes through open_reply.
using HttpHandler = std::function<HttpAnswer(const HttpRequest&)>;

}  // namespace meshwright
