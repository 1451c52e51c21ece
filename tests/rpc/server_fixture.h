#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "recorder/recorder.h"
#include "server/convert/convert.h"
#include "server/engine/engine.h"
#include "server/rpc/client/client.h"
#include "server/rpc/server.h"
#include "server/tuner/question/problem.h"
#include "tests/files/temporary_folder.h"
#include "tests/rpc/questions.h"

namespace meshwright {

inline const Knowledge& Known() {
  static const Knowledge knowledge = *LoadKnowledge("");
  return knowledge;
}

// A real engine on a real file, with a real server on a port of its own.
class RunningServer {
 public:
  explicit RunningServer(std::chrono::milliseconds heartbeat = std::chrono::milliseconds(100))
      : RunningServer(ServerOptions{.heartbeat = heartbeat}) {}
  // The engine has the options' quota.
  explicit RunningServer(ServerOptions options, bool allows_jobs = false) {
    options.listen = "127.0.0.1:0";
    options.drain = std::chrono::milliseconds(500);
    auto recorder = Recorder::Open({.path = folder_.File("history.db")});
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    engine_ = *Engine::Start(*std::move(recorder), Known(), ProtobufCodec(Known()),
                             {.quota = options.quota, .allows_jobs = allows_jobs});
    server_ = *Server::Start(options, Known(), *engine_);
    auto client = Client::Connect(server_->address());
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = std::make_unique<Client>(*std::move(client));
  }
  Client& client() { return *client_; }
  Server& server() { return *server_; }
  [[nodiscard]] std::string File(const std::string& name) const { return folder_.File(name); }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
};

class ServerTest : public testing::Test {
 protected:
  Client& client() { return running_.client(); }
  Server& server() { return running_.server(); }
  [[nodiscard]] std::string File(const std::string& name) const { return running_.File(name); }

  absl::StatusOr<v1::CreateStudyResponse> Create(const v1::TuneRequest& question) {
    v1::CreateStudyRequest request;
    *request.mutable_question() = question;
    return client().CreateStudy(request);
  }
  // Follows a study to its end.
  absl::Status Watch(const std::string& id, std::vector<v1::WatchStudyResponse>& events,
                     std::int64_t after_revision = 0) {
    v1::WatchStudyRequest request;
    request.set_study_id(id);
    request.set_after_revision(after_revision);
    return client().WatchStudy(request,
                               [&](const v1::WatchStudyResponse& event) {
                                 events.push_back(event);
                                 return true;
                               },
                               {.timeout = std::chrono::seconds(120)});
  }

 private:
  RunningServer running_;
};

}  // namespace meshwright
