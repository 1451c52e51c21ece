#include "tests/rpc/daemon.h"

#include <gmock/gmock.h>
#include <grpc/health/v1/health.grpc.pb.h>
#include <grpc/reflection/v1alpha/reflection.grpc.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recorder/recorder.h"
#include "recorder/records.h"
#include "tests/events/wait_for.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

namespace health = grpc::health::v1;
namespace reflection = grpc::reflection::v1alpha;

using testing::HasSubstr;
using testing::IsSupersetOf;

class DaemonTest : public testing::Test {
 protected:
  std::shared_ptr<grpc::Channel> Connect() {
    return grpc::CreateChannel(daemon_.address(), grpc::InsecureChannelCredentials());
  }

 private:
  TemporaryFolder folder_;

 protected:
  Daemon daemon_{{"--db", folder_.File("new/folder/history.db"), "--log-level", "error"}};
};

TEST_F(DaemonTest, EachServiceIsHealthy) {
  const auto stub = health::Health::NewStub(Connect());
  for (const char* service : {"", "meshwright.v1.RecommendationService",
                              "meshwright.v1.TuningService", "meshwright.v1.CatalogService",
                              "meshwright.v1.PlacementService", "meshwright.v1.ServerService",
                              "meshwright.v1.FeedbackService", "meshwright.v1.HistoryService"}) {
    grpc::ClientContext context;
    health::HealthCheckRequest request;
    request.set_service(service);
    health::HealthCheckResponse response;
    const grpc::Status status = stub->Check(&context, request, &response);
    EXPECT_TRUE(status.ok()) << service << ": " << status.error_message();
    EXPECT_EQ(response.status(), health::HealthCheckResponse::SERVING) << service;
  }
}

TEST_F(DaemonTest, ReflectionListsAndDescribesEachService) {
  const auto stub = reflection::ServerReflection::NewStub(Connect());
  grpc::ClientContext context;
  const auto stream = stub->ServerReflectionInfo(&context);
  reflection::ServerReflectionRequest request;
  reflection::ServerReflectionResponse response;
  request.set_list_services("");
  ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
  std::vector<std::string> services;
  for (const auto& service : response.list_services_response().service()) {
    services.push_back(service.name());
  }
  EXPECT_THAT(services,
              IsSupersetOf({"meshwright.v1.RecommendationService", "meshwright.v1.TuningService",
                            "meshwright.v1.CatalogService", "meshwright.v1.PlacementService",
                            "meshwright.v1.ServerService", "meshwright.v1.FeedbackService",
                            "meshwright.v1.HistoryService", "grpc.health.v1.Health"}));
  for (const std::string& service : services) {
    request.set_file_containing_symbol(service);
    ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
    EXPECT_FALSE(response.has_error_response())
        << service << ": " << response.error_response().error_message();
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(DaemonTest, EndsWithZeroWhenTold) { EXPECT_EQ(daemon_.Stop(SIGTERM), 0); }

TEST(DaemonRetentionTest, ForgetsOldEstimatesWhenAsked) {
  const TemporaryFolder folder;
  const std::string path = folder.File("history.db");
  const auto add_study = [](Recorder& store) {
    ASSERT_TRUE(store.InsertStudy({.id = "old"}).ok());
    std::vector<PlanRecord> plans;
    for (int rank = 0; rank < 4; ++rank) {
      plans.push_back({.study_id = "old", .rank = rank, .state = "estimated"});
    }
    ASSERT_TRUE(store.FinishStudy({.study_id = "old", .time_ms = 1, .plans = plans}).ok());
  };
  const auto count_plans = [&path] {
    const auto store = Recorder::Open({.path = path, .read_only = true});
    const auto page = store.ok() ? store->ListPlans("old", 0, "") : store.status();
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? page->plans.size() : 0;
  };
  {
    auto store = Recorder::Open({.path = path});
    ASSERT_TRUE(store.ok()) << store.status();
    add_study(*store);
  }
  Daemon keeps({"--db", path, "--log-level", "error"});
  EXPECT_EQ(keeps.Stop(SIGTERM), 0);
  EXPECT_EQ(count_plans(), 4u);
  Daemon forgets({"--db", path, "--log-level", "error", "--keep-estimates-days", "1"});
  EXPECT_EQ(forgets.Stop(SIGTERM), 0);
  EXPECT_EQ(count_plans(), 2u);  // the baseline and the best
}

TEST(DaemonFilesTest, OpensAsManyFilesAsTheSystemAllows) {
  const TemporaryFolder folder;
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  rlimit low = limit;
  low.rlim_cur = std::min<rlim_t>(limit.rlim_max / 2, 512);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  Daemon daemon({"--db", folder.File("history.db"), "--log-level", "error"});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit raised = {};
  ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, nullptr, &raised), 0);
  EXPECT_EQ(raised.rlim_cur, limit.rlim_max);
  EXPECT_EQ(daemon.Stop(SIGTERM), 0);
}

TEST(DaemonStoreTest, ASecondServerOnTheSameStoreStopsAndNamesTheFirst) {
  const TemporaryFolder folder;
  const std::string path = folder.File("history.db");
  Daemon first({"--db", path, "--log-level", "error"});
  ASSERT_NE(first.address(), "");
  testing::internal::CaptureStderr();
  Daemon second({"--db", path, "--log-level", "error"});
  EXPECT_EQ(second.address(), "");
  EXPECT_EQ(second.Stop(0), 8);  // after waiting for a server that is about to end
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::AllOf(HasSubstr("STORE_IN_USE"), HasSubstr(path),
                     HasSubstr("pid " + std::to_string(first.pid()) + " (meshwrightd on ")));
  EXPECT_EQ(first.Stop(SIGTERM), 0);
}

// The test holds the store, as a predecessor does that still drains.
TEST(DaemonStartTest, AnswersWhileItWaitsForTheStore) {
  const TemporaryFolder folder;
  const std::string path = folder.File("history.db");
  const std::string address = "unix:" + folder.File("socket");
  std::optional<Recorder> holder = *Recorder::Open({.path = path});
  Daemon daemon({"--db", path, "--listen", address, "--log-level", "error"}, Daemon::Wait::kNot);
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  const auto stub = health::Health::NewStub(channel);
  for (const std::string service : {"", "meshwright.v1.RecommendationService"}) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    health::HealthCheckRequest request;
    request.set_service(service);
    health::HealthCheckResponse response;
    const grpc::Status status = stub->Check(&context, request, &response);
    ASSERT_TRUE(status.ok()) << service << ": " << status.error_message();
    EXPECT_EQ(response.status(), health::HealthCheckResponse::NOT_SERVING) << service;
  }
  // Any other call is refused, whatever it is.
  grpc::GenericStub calls(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::ByteBuffer reply;
  grpc::Status refused;
  const auto call = calls.PrepareUnaryCall(&context, "/meshwright.v1.ServerService/GetServerInfo",
                                           grpc::ByteBuffer(), &queue);
  call->StartCall();
  call->Finish(&reply, &refused, nullptr);
  void* tag = nullptr;
  bool is_ok = false;
  ASSERT_TRUE(queue.Next(&tag, &is_ok));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(), HasSubstr("starting"));
  EXPECT_THAT(refused.error_details(), HasSubstr("SERVER_STARTING"));
  EXPECT_THAT(refused.error_details(), HasSubstr("google.rpc.RetryInfo"));

  holder.reset();
  daemon.WaitUntilReady();
  EXPECT_EQ(daemon.address(), address);
  // The connection from before ends soon, and no call fails meanwhile.
  EXPECT_TRUE(WaitFor([&stub] {
    grpc::ClientContext again;
    health::HealthCheckResponse response;
    const grpc::Status status = stub->Check(&again, health::HealthCheckRequest(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.status() == health::HealthCheckResponse::SERVING;
  }));
  EXPECT_EQ(daemon.Stop(SIGTERM), 0);
}

// A predecessor that drains has the address as well as the store.
TEST(DaemonStartTest, TakesOverTheAddressOfAServerThatEnds) {
  const TemporaryFolder folder;
  const std::string path = folder.File("history.db");
  Daemon first({"--db", path, "--log-level", "error"});
  ASSERT_NE(first.address(), "");
  Daemon second({"--db", path, "--listen", first.address(), "--log-level", "error"},
                Daemon::Wait::kNot);
  EXPECT_EQ(first.Stop(SIGTERM), 0);
  second.WaitUntilReady();
  EXPECT_EQ(second.address(), first.address());
  EXPECT_EQ(second.Stop(SIGTERM), 0);
}

struct RefusalCase {
  std::string name;
  std::vector<std::string> flags;
  int exit_code;
};

class RefusalTest : public testing::TestWithParam<RefusalCase> {};

TEST_P(RefusalTest, EndsAtOnceWithItsCode) {
  const TemporaryFolder folder;
  std::vector<std::string> flags = GetParam().flags;
  flags.insert(flags.end(), {"--db", folder.File("history.db"), "--log-level", "error"});
  Daemon daemon(flags);
  EXPECT_EQ(daemon.address(), "");
  EXPECT_EQ(daemon.Stop(0), GetParam().exit_code);
}

const RefusalCase kRefusals[] = {
    {"usage", {"--no-such-flag"}, 2},
    {"keep_estimates_days", {"--keep-estimates-days", "0"}, 2},
    {"log_level", {"--log-level", "loud"}, 2},
    {"chip_folder", {"--chips", "/no/such/folder"}, 5},
};
INSTANTIATE_TEST_SUITE_P(All, RefusalTest, testing::ValuesIn(kRefusals),
                         [](const auto& c) { return c.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
