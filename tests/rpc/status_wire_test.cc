#include "server/convert/status_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

google::rpc::Status Details(const absl::Status& status) {
  google::rpc::Status wire;
  EXPECT_TRUE(wire.ParseFromString(ToGrpc(status).error_details()));
  return wire;
}

TEST(StatusWire, OkIsOk) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(StatusWire, EveryErrorSaysWhy) {
  const google::rpc::Status wire = Details(WithReason(absl::NotFoundError("no"), "UNKNOWN_CHIP"));
  google::rpc::ErrorInfo why;
  ASSERT_EQ(wire.details_size(), 1);
  ASSERT_TRUE(wire.details(0).UnpackTo(&why));
  EXPECT_EQ(why.reason(), "UNKNOWN_CHIP");
  EXPECT_EQ(why.domain(), "meshwright");
}

TEST(StatusWire, NeverUnknown) {
  EXPECT_EQ(ToGrpc(absl::UnknownError("?")).error_code(), grpc::StatusCode::INTERNAL);
}

// Details that are not UTF-8 would not be read by anybody.
TEST(StatusWire, TextsAreClean) {
  const absl::Status status =
      WithResource(absl::NotFoundError("no\xff\x1b[2J"), "study", "study-\xff");
  EXPECT_EQ(ToGrpc(status).error_message(), "no? [2J");
  const google::rpc::Status wire = Details(status);
  EXPECT_EQ(wire.message(), "no? [2J");
  google::rpc::ResourceInfo resource;
  ASSERT_EQ(wire.details_size(), 2);
  ASSERT_TRUE(wire.details(1).UnpackTo(&resource));
  EXPECT_EQ(resource.resource_name(), "study-?");
}

TEST(StatusWire, NamesWhatWasNotFound) {
  const google::rpc::Status wire =
      Details(WithResource(absl::NotFoundError("no"), "study", "study-1"));
  google::rpc::ResourceInfo resource;
  ASSERT_EQ(wire.details_size(), 2);
  ASSERT_TRUE(wire.details(1).UnpackTo(&resource));
  EXPECT_EQ(resource.resource_type(), "study");
  EXPECT_EQ(resource.resource_name(), "study-1");
}

v1::Infeasible SampleInfeasible() {
  v1::Infeasible infeasible;
  infeasible.set_binding_memory_kind("weights");
  infeasible.set_missing_bytes(1);
  return infeasible;
}

struct RoundTripCase {
  std::string name;
  absl::Status status;
};

class RoundTripTest : public testing::TestWithParam<RoundTripCase> {};

TEST_P(RoundTripTest, ComesBackTheSame) {
  EXPECT_EQ(FromGrpc(ToGrpc(GetParam().status)), GetParam().status);
}

const RoundTripCase kRoundTrips[] = {
    {"plain", absl::UnavailableError("busy")},
    {"reason", WithReason(absl::AbortedError("slow"), "RESYNC")},
    {"one_field", InvalidFields({{"a.b", "0; must be >= 1"}})},
    {"fields", InvalidFields({{"a.b", "0; must be >= 1"}, {"c[3]", "'x'; must be y"}})},
    // The message is longer than metadata may be, so the client rebuilds it.
    {"many_fields", InvalidFields(std::vector<FieldViolation>(
                        40, {"cluster.pools[0].node_count", "0; must be >= 1"}))},
    {"resource", WithResource(absl::NotFoundError("no"), "study", "study-1")},
    {"retry", WithRetryAfter(absl::UnavailableError("soon"), std::chrono::milliseconds(1250))},
    {"starting", ServerStarting()},
    {"infeasible", WithStudyId(InfeasibleStatus(SampleInfeasible()), "study-1")},
};
INSTANTIATE_TEST_SUITE_P(All, RoundTripTest, testing::ValuesIn(kRoundTrips),
                         [](const auto& c) { return c.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
