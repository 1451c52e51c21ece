#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "server/auth/callers.h"
#include "server/auth/permissions.h"
#include "tests/rpc/callers_file.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

ServerOptions WithCallers() {
  return {.callers = CallersWithRoles({"viewer", "submitter", "operator", "admin"})};
}

class AdmissionTest : public testing::Test {
 protected:
  Client As(const std::string& role) {
    return *Client::Connect(running_.server().address(), {.token = role + "-token"});
  }
  RunningServer running_{WithCallers()};
};

std::vector<const google::protobuf::MethodDescriptor*> Methods() {
  std::vector<const google::protobuf::MethodDescriptor*> methods;
  for (const char* file : {"service", "catalog", "history"}) {
    const auto* const proto = google::protobuf::DescriptorPool::generated_pool()->FindFileByName(
        std::string("meshwright/v1/") + file + ".proto");
    for (int i = 0; i < proto->service_count(); ++i) {
      for (int j = 0; j < proto->service(i)->method_count(); ++j) {
        methods.push_back(proto->service(i)->method(j));
      }
    }
  }
  return methods;
}

// Calls a method with an empty request, as somebody who knows the names alone.
grpc::Status CallAsNobody(const std::string& address,
                          const google::protobuf::MethodDescriptor& method) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer response;
  const auto call = stub.PrepareUnaryCall(
      &context, "/" + method.service()->full_name() + "/" + method.name(), request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

// A method that forgot to ask, or that is not in the table, fails here.
TEST_F(AdmissionTest, NoMethodAnswersStrangers) {
  const auto methods = Methods();
  EXPECT_GT(methods.size(), 30U);
  for (const auto* const method : methods) {
    EXPECT_TRUE(NeededRole(method->name()).has_value()) << method->full_name();
    const grpc::Status status = CallAsNobody(running_.server().address(), *method);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED)
        << method->full_name() << ": " << status.error_message();
  }
}

TEST_F(AdmissionTest, AWrongTokenIsAStranger) {
  EXPECT_TRUE(absl::IsUnauthenticated(As("boss").ListStudies({}).status()));
}

TEST_F(AdmissionTest, ARoleMayWhatTheRolesBeforeItMay) {
  Client viewer = As("viewer");
  Client submitter = As("submitter");
  EXPECT_TRUE(viewer.ListStudies({}).ok());
  v1::RecommendRequest recommend;
  *recommend.mutable_question() = SmallQuestion();
  const auto kept = viewer.Recommend(recommend);
  EXPECT_TRUE(absl::IsPermissionDenied(kept.status())) << kept.status();
  EXPECT_EQ(Reason(kept.status()), "ROLE_TOO_LOW");
  EXPECT_THAT(std::string(kept.status().message()),
              testing::HasSubstr("viewer has the role viewer; Recommend needs submitter"));
  EXPECT_TRUE(submitter.Recommend(recommend).ok());
  recommend.set_is_unrecorded(true);
  EXPECT_TRUE(viewer.Recommend(recommend).ok());
}

// A stranger learns nothing about what exists.
TEST_F(AdmissionTest, PermissionComesBeforeExistence) {
  EXPECT_TRUE(absl::IsUnauthenticated(As("boss").GetStudy("no-such-study").status()));
  EXPECT_TRUE(absl::IsNotFound(As("viewer").GetStudy("no-such-study").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(As("viewer").CancelStudy("no-such-study").status()));
  EXPECT_TRUE(absl::IsNotFound(As("submitter").CancelStudy("no-such-study").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(As("viewer").PauseStudy("no-such-study").status()));
  EXPECT_TRUE(absl::IsNotFound(As("submitter").PauseStudy("no-such-study").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(As("viewer").ResumeStudy("no-such-study").status()));
  EXPECT_TRUE(absl::IsNotFound(As("submitter").ResumeStudy("no-such-study").status()));
}

TEST_F(AdmissionTest, OnlyAdministratorsSeeWhoCalls) {
  EXPECT_TRUE(absl::IsPermissionDenied(As("operator").ListCallers().status()));
  EXPECT_TRUE(As("admin").ListCallers().ok());
}

TEST_F(AdmissionTest, JobsNeedAnOperator) {
  v1::CreateStudyRequest request;
  *request.mutable_question() = SmallQuestion();
  request.mutable_question()->mutable_trials()->set_launcher("local");
  EXPECT_EQ(Reason(As("submitter").CreateStudy(request).status()), "ROLE_TOO_LOW");
  EXPECT_NE(Reason(As("operator").CreateStudy(request).status()), "ROLE_TOO_LOW");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
