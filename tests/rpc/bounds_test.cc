// Tests that nothing in one request makes the server work or answer without bound.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "meshwright/v1/service.grpc.pb.h"
#include "search_space/base/status.h"
#include "server/convert/status_wire.h"
#include "server/rpc/calls/limits.h"
#include "server/rpc/calls/request_limits.h"
#include "tests/rpc/questions.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class BoundsTest : public testing::Test {
 protected:
  // One server serves all tests, because none of the calls changes anything.
  static void SetUpTestSuite() { running_ = new RunningServer(); }
  static void TearDownTestSuite() {
    delete running_;
    running_ = nullptr;
  }

  // Returns a client as anybody has it: gRPC's own, with all of its defaults.
  static std::unique_ptr<v1::RecommendationService::Stub> DefaultStub() {
    return v1::RecommendationService::NewStub(
        grpc::CreateChannel(running_->server().address(), grpc::InsecureChannelCredentials()));
  }
  static absl::Status Recommend(const v1::TuneRequest& question) {
    v1::RecommendRequest request;
    *request.mutable_question() = question;
    v1::RecommendResponse response;
    grpc::ClientContext context;
    return FromGrpc(DefaultStub()->Recommend(&context, request, &response));
  }
  static absl::Status Evaluate(const v1::EvaluatePlansRequest& request) {
    v1::EvaluatePlansResponse response;
    grpc::ClientContext context;
    return FromGrpc(DefaultStub()->EvaluatePlans(&context, request, &response));
  }
  static absl::Status Sweep(const v1::SweepRequest& request) {
    v1::SweepResponse response;
    grpc::ClientContext context;
    return FromGrpc(DefaultStub()->Sweep(&context, request, &response));
  }

  static RunningServer* running_;
};
RunningServer* BoundsTest::running_ = nullptr;

// gRPC would decompress all of a message before it looks at its length.
TEST_F(BoundsTest, ACompressedMessageIsRefused) {
  for (const grpc_compression_algorithm kind : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    v1::RecommendRequest request;
    *request.mutable_question() = SmallQuestion();
    request.mutable_question()->mutable_model()->set_name(std::string(100 << 20, 'a'));
    v1::RecommendResponse response;
    grpc::ClientContext context;
    context.set_compression_algorithm(kind);
    const grpc::Status status = DefaultStub()->Recommend(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("is disabled"));
  }
}

TEST_F(BoundsTest, AMessageThatIsTooLargeIsRefused) {
  v1::TuneRequest question = SmallQuestion();
  question.mutable_model()->set_name(std::string(kMaxRequestBytes, 'a'));
  EXPECT_TRUE(absl::IsResourceExhausted(Recommend(question)));
}

TEST_F(BoundsTest, AListThatIsTooLongIsNamed) {
  v1::EvaluatePlansRequest cases;
  for (int i = 0; i <= kMaxCases; ++i) cases.add_cases();
  EXPECT_THAT(FieldViolations(Evaluate(cases)),
              ElementsAre(FieldViolation{"cases", "10001 elements; must be at most 10000"}));

  v1::SweepRequest sweep;
  *sweep.mutable_question() = SmallQuestion();
  for (int i = 0; i <= kMaxElements; ++i) sweep.add_node_counts(1);
  EXPECT_THAT(FieldViolations(Sweep(sweep)),
              ElementsAre(FieldViolation{"node_counts", "10001 elements; must be at most 10000"}));

  v1::TuneRequest question = SmallQuestion();
  for (int i = 0; i <= kMaxTexts; ++i) question.add_disabled_rules("x");
  EXPECT_THAT(FieldViolations(Recommend(question)),
              ElementsAre(FieldViolation{"question.disabled_rules",
                                         "1001 elements; must be at most 1000"}));
}

// Each list is short enough.
TEST_F(BoundsTest, ListsThatAreTooLongTogetherAreNamed) {
  v1::EvaluatePlansRequest request;
  for (int i = 0; i < 301; ++i) {
    v1::Cluster& cluster = *request.add_cases()->mutable_cluster();
    for (int j = 0; j < 1000; ++j) cluster.add_pools();
  }
  EXPECT_THAT(FieldViolations(Evaluate(request)),
              ElementsAre(FieldViolation{"cases[299].cluster.pools",
                                         "with this list, all lists have 300301 elements; must be "
                                         "at most 300000"}));
}

TEST_F(BoundsTest, ATextThatIsTooLongIsNamed) {
  v1::TuneRequest question = SmallQuestion();
  question.mutable_cluster()->mutable_pools(0)->set_chip(std::string(5000, 'z'));
  EXPECT_THAT(FieldViolations(Recommend(question)),
              ElementsAre(FieldViolation{"question.cluster.pools[0].chip",
                                         "5000 bytes; must be at most 4096"}));
  question = SmallQuestion();
  question.set_hugging_face_config_json(std::string(kMaxLinesBytes + 1, ' '));
  EXPECT_THAT(FieldViolations(Recommend(question)),
              ElementsAre(FieldViolation{"question.hugging_face_config_json",
                                         "1048577 bytes; must be at most 1048576"}));
}

// A client with gRPC's defaults takes 8 KiB of metadata. It would get RESOURCE_EXHAUSTED, without a
// reason, in place of a longer error.
TEST_F(BoundsTest, ADefaultClientIsToldOfManyMistakes) {
  v1::TuneRequest question = SmallQuestion();
  for (int i = 0; i < 300; ++i) question.add_disabled_rules("x");
  const absl::Status status = Recommend(question);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(Reason(status), "INVALID_FIELDS");
  const std::vector<FieldViolation> found = FieldViolations(status);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.front().field, "disabled_rules[0]");
  EXPECT_EQ(CountFields(found), 300U);
  EXPECT_THAT(std::string(status.message()), StartsWith("300 invalid fields"));
}

TEST_F(BoundsTest, ADefaultClientIsToldOfLongTexts) {
  std::string longest;
  while (longest.size() + 2 <= kMaxTextBytes) longest += "\u00e9";  // takes 6 bytes in a header
  v1::TuneRequest question = SmallQuestion();
  question.mutable_cluster()->mutable_pools(0)->set_chip(longest);
  question.mutable_model()->set_mlp(longest);
  question.mutable_model()->set_norm(longest);
  for (int i = 0; i < 40; ++i) question.add_disabled_rules(longest);
  const absl::Status status = Recommend(question);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(Reason(status), "INVALID_FIELDS");
  EXPECT_GE(CountFields(FieldViolations(status)), 43U);

  const auto tuning = v1::TuningService::NewStub(
      grpc::CreateChannel(running_->server().address(), grpc::InsecureChannelCredentials()));
  v1::GetStudyRequest request;
  request.set_study_id(longest);
  v1::GetStudyResponse response;
  grpc::ClientContext context;
  const absl::Status unknown = FromGrpc(tuning->GetStudy(&context, request, &response));
  EXPECT_TRUE(absl::IsNotFound(unknown)) << unknown;
  EXPECT_EQ(Reason(unknown), "UNKNOWN_STUDY");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
