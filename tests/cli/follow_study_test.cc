#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "cli/reports/study_answer.h"
#include "meshwright/v1/service.grpc.pb.h"
#include "search_space/base/status.h"
#include "server/convert/status_wire.h"
#include "server/rpc/client/client.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;

// Sends one event per call, the next one for the watcher, and ends the first call with an error.
class BrokenOffWatch final : public v1::TuningService::Service {
 public:
  explicit BrokenOffWatch(absl::Status first_error) : first_error_(std::move(first_error)) {}

  grpc::Status WatchStudy(grpc::ServerContext* /*context*/, const v1::WatchStudyRequest* request,
                          grpc::ServerWriter<v1::WatchStudyResponse>* writer) override {
    seen_.push_back(request->after_revision());
    v1::WatchStudyResponse event;
    event.set_revision(request->after_revision() + 1);
    writer->Write(event);
    return seen_.size() == 1 ? ToGrpc(first_error_) : grpc::Status::OK;
  }

  [[nodiscard]] const std::vector<std::int64_t>& seen() const { return seen_; }

 private:
  const absl::Status first_error_;
  std::vector<std::int64_t> seen_;
};

struct Followed {
  absl::Status status = {};
  std::vector<std::int64_t> calls = {};      // the after_revision of each
  std::vector<std::int64_t> revisions = {};  // of the events
};

Followed Follow(const absl::Status& first_error) {
  BrokenOffWatch service(first_error);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  auto client = Client::Connect("127.0.0.1:" + std::to_string(port));
  if (!client.ok()) return {.status = client.status()};
  Followed followed;
  followed.status = FollowStudy(
      *client, "study-a",
      [&](const v1::WatchStudyResponse& event) { followed.revisions.push_back(event.revision()); },
      std::stop_token());
  server->Shutdown();
  followed.calls = service.seen();
  return followed;
}

TEST(FollowStudyTest, GoesOnWhereTheStreamBroke) {
  for (const absl::Status& error : {WithReason(absl::AbortedError("slow"), "RESYNC"),
                                    absl::UnavailableError("the server restarts")}) {
    const Followed followed = Follow(error);
    EXPECT_TRUE(followed.status.ok()) << followed.status;
    EXPECT_THAT(followed.calls, ElementsAre(0, 1)) << error;
    EXPECT_THAT(followed.revisions, ElementsAre(1, 2)) << error;
  }
}

TEST(FollowStudyTest, OtherErrorsEndIt) {
  const Followed followed = Follow(absl::AbortedError("not to be resumed"));
  EXPECT_TRUE(absl::IsAborted(followed.status)) << followed.status;
  EXPECT_THAT(followed.revisions, ElementsAre(1));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
