// Tests that one caller's calls leave others their turn, and that calls that nobody waits for are
// dropped.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/v1/service.grpc.pb.h"
#include "search_space/base/status.h"
#include "server/convert/status_wire.h"
#include "server/tuner/question/plan_model.h"
#include "tests/events/wait_for.h"
#include "tests/rpc/questions.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using Stub = v1::RecommendationService::Stub;

constexpr char kHeldModel[] = "held";

// A vendor's model whose start takes until it is released.
class HeldModel {
 public:
  OpenPlanModel Open() {
    return [this](std::string_view /*name*/, const Problem& /*problem*/,
                  const std::stop_token& /*cancel*/) -> absl::StatusOr<std::unique_ptr<PlanModel>> {
      std::unique_lock lock(mutex_);
      ++open_count_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return is_released_; });
      return absl::UnavailableError("released");
    };
  }
  void WaitUntilAsked() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_count_ > 0; });
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }
  int open_count() {
    const std::lock_guard lock(mutex_);
    return open_count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_count_ = 0;
  bool is_released_ = false;
};

// A call that is under way.
struct OpenCall {
  grpc::ClientContext context = {};
  v1::RecommendRequest request = {};
  v1::RecommendResponse response = {};
  std::promise<absl::Status> ended = {};
  std::future<absl::Status> status = ended.get_future();
};

class TurnsTest : public testing::Test {
 protected:
  ~TurnsTest() override { model_.Release(); }

  // Returns a client with a connection of its own, as another program has it.
  std::unique_ptr<Stub> NewCaller() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1::RecommendationService::NewStub(grpc::CreateCustomChannel(
        running_.server().address(), grpc::InsecureChannelCredentials(), arguments));
  }
  static std::unique_ptr<OpenCall> AskHeldModel(Stub& caller) {
    auto call = std::make_unique<OpenCall>();
    *call->request.mutable_question() = SmallQuestion();
    call->request.mutable_question()->mutable_cost_model()->set_name(kHeldModel);
    caller.async()->Recommend(
        &call->context, &call->request, &call->response,
        [&call = *call](const grpc::Status& status) { call.ended.set_value(FromGrpc(status)); });
    return call;
  }
  static absl::Status Recommend(Stub& caller, std::chrono::milliseconds timeout) {
    v1::RecommendRequest request;
    *request.mutable_question() = SmallQuestion();
    v1::RecommendResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    return FromGrpc(caller.Recommend(&context, request, &response));
  }

  HeldModel model_;
  RunningServer running_{ServerOptions{.worker_count = 1, .open_model = model_.Open()}};
};

constexpr std::chrono::minutes kLong(2);  // far above what an answer takes on a busy machine

TEST_F(TurnsTest, ACallerThatFillsItsShareLeavesOthersTheirs) {
  const std::unique_ptr<Stub> greedy = NewCaller();
  std::vector<std::unique_ptr<OpenCall>> calls;
  calls.push_back(AskHeldModel(*greedy));
  model_.WaitUntilAsked();
  constexpr int kShare = 64;
  for (int i = 0; i <= kShare; ++i) calls.push_back(AskHeldModel(*greedy));
  // One is more than may wait.
  OpenCall* refused = nullptr;
  ASSERT_TRUE(WaitFor([&] {
    for (const auto& call : calls) {
      if (call->status.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
        refused = call.get();
      }
    }
    return refused != nullptr;
  }));
  EXPECT_EQ(Reason(refused->status.get()), "SERVER_BUSY");

  EXPECT_EQ(Recommend(*NewCaller(), kLong), absl::OkStatus());

  // Calls that are given up make room at once, and are not begun later.
  for (const auto& call : calls) {
    if (call.get() != calls.front().get() && call.get() != refused) call->context.TryCancel();
  }
  EXPECT_TRUE(WaitFor([&] {
    const absl::Status status = Recommend(*greedy, std::chrono::milliseconds(100));
    return absl::IsDeadlineExceeded(status);  // it waits, and is not refused
  }));
  model_.Release();
  EXPECT_EQ(Recommend(*greedy, kLong), absl::OkStatus());
  EXPECT_EQ(model_.open_count(), 1);
  for (const auto& call : calls) {
    if (call.get() != refused) call->status.wait();
  }
}

TEST_F(TurnsTest, HeavyCallsDelayNoAnswer) {
  const std::unique_ptr<Stub> caller = NewCaller();
  v1::EvaluatePlansRequest request;
  v1::EvaluateCase& one = *request.add_cases();
  *one.mutable_model() = SmallQuestion().model();
  *one.mutable_workload() = SmallQuestion().workload();
  *one.mutable_cluster() = SmallQuestion().cluster();
  one.mutable_plan()->set_tensor_parallel(8);
  request.mutable_cost_model()->set_name(kHeldModel);
  constexpr int kCalls = 4;
  std::vector<grpc::ClientContext> contexts(kCalls);
  std::vector<v1::EvaluatePlansResponse> responses(kCalls);
  std::vector<std::promise<grpc::Status>> ended(kCalls);
  for (std::size_t i = 0; i < kCalls; ++i) {
    caller->async()->EvaluatePlans(
        &contexts[i], &request, &responses[i],
        [&ended = ended[i]](const grpc::Status& status) { ended.set_value(status); });
  }
  model_.WaitUntilAsked();
  EXPECT_EQ(Recommend(*caller, kLong), absl::OkStatus());
  model_.Release();
  for (auto& call : ended) EXPECT_TRUE(call.get_future().get().ok());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
