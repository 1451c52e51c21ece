#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/plan_fields.h"
#include "search_space/spec/workload.h"
#include "server/convert/convert.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/tuner/question/problem.h"
#include "tests/convert/full_samples.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::util::MessageDifferencer;

// Returns the plan that a request states, with the default of each field that it leaves out.
ParallelPlan Chosen(const PlanRequest& stated) {
  ParallelPlan plan;
  ForEachRow(kPlanFields, [&](const auto& row) {
    using Value = typename std::decay_t<decltype(row)>::value_type;
    const auto& field = stated.*row.stated;
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Value>) {
      plan.*row.member = field;
    } else if (field.has_value()) {
      plan.*row.member = *field;
    }
  });
  return plan;
}

// Converts to JSON, back, and into the domain again.
template <typename Wire, typename Domain>
Domain ThroughJson(const Wire& wire, Domain (*read)(const MessageReader&)) {
  Wire back;
  EXPECT_TRUE(ParseJson(PrintJson(wire, {}), "", back).empty());
  EXPECT_TRUE(MessageDifferencer::Equals(wire, back));
  std::vector<FieldViolation> found;
  Domain domain = read(MessageReader(back, "", found));
  EXPECT_TRUE(found.empty());
  return domain;
}

TEST(RoundTripTest, Model) {
  EXPECT_EQ(ThroughJson(ToWire(FullModel()), ReadModel), FullModel());
  EXPECT_THAT(UnsetFields(ToWire(FullModel())), testing::IsEmpty());
  ModelSpec mixed = FullModel();
  mixed.layers.clear();
  mixed.moe->first_dense_layer_count = 1;
  EXPECT_EQ(ThroughJson(ToWire(mixed), ReadModel), mixed);
  ModelSpec dense = FullModel();
  dense.moe.reset();
  dense.mla.reset();
  EXPECT_EQ(ThroughJson(ToWire(dense), ReadModel), dense);
}

TEST(RoundTripTest, Workload) {
  EXPECT_EQ(ThroughJson(ToWire(FullWorkload()), ReadWorkload), FullWorkload());
  EXPECT_THAT(UnsetFields(ToWire(FullWorkload())), testing::IsEmpty());
  EXPECT_EQ(ThroughJson(ToWire(WorkloadRequest()), ReadWorkload), WorkloadRequest());
}

TEST(RoundTripTest, Cluster) {
  ClusterRequest full = FullCluster();
  full.pools.front().physical_devices_per_node = 2;  // refused if there are several pools
  full.pools.front().host = {.updated_parameters_per_second = 2e9,
                             .numa_domain_count = 4,
                             .memory = GiB(512),
                             .link_bandwidth = BytesPerSecond{5e10}};
  EXPECT_EQ(ThroughJson(ToWire(full), ReadCluster), full);
  EXPECT_THAT(UnsetFields(ToWire(full)), testing::IsEmpty());
  EXPECT_EQ(ThroughJson(ToWire(ClusterRequest()), ReadCluster), ClusterRequest());
}

TEST(RoundTripTest, Plan) {
  EXPECT_EQ(ThroughJson(ToWire(FullPlan()), ReadPlan), StatedPlan(FullPlan()));
  EXPECT_EQ(Chosen(ThroughJson(ToWire(FullPlan()), ReadPlan)), FullPlan());
  EXPECT_EQ(ThroughJson(ToWire(PlanRequest()), ReadPlan), PlanRequest());
  EXPECT_EQ(Chosen(ThroughJson(ToWire(ParallelPlan()), ReadPlan)), ParallelPlan());
}

// Changes one field to another legal value.
void Change(const FieldDescriptor& field, Message& message) {
  static const std::map<std::string, std::string> kWords = {{"context_parallel_kind", "ring"},
                                                            {"schedule", "gpipe"},
                                                            {"granularity", "full"},
                                                            {"rank_order", "tp-cp-ep-dp-pp"}};
  const Reflection& r = *message.GetReflection();
  if (field.is_repeated()) {
    r.RemoveLast(&message, &field);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    r.SetInt32(&message, &field, r.GetInt32(message, &field) + 1);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    r.SetDouble(&message, &field, r.GetDouble(message, &field) * 2);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    r.SetBool(&message, &field, !r.GetBool(message, &field));
  } else {
    const auto word = kWords.find(field.name());
    r.SetString(&message, &field, word == kWords.end() ? "other" : word->second);
  }
}

// Calls `check` with each way to change one field of `inner`, which is part of `whole`.
void ForEachChange(v1::Plan& whole, Message& inner,
                   const std::function<void(const std::string&)>& check) {
  const Reflection& reflection = *inner.GetReflection();
  for (int i = 0; i < inner.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *inner.GetDescriptor()->field(i);
    if (IsShorthand(field)) continue;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ForEachChange(whole,
                    field.is_repeated() ? *reflection.MutableRepeatedMessage(&inner, &field, 0)
                                        : *reflection.MutableMessage(&inner, &field),
                    check);
      continue;
    }
    const v1::Plan before = whole;
    const std::unique_ptr<Message> inner_before(inner.New());
    inner_before->CopyFrom(inner);
    Change(field, inner);
    check(field.full_name());
    inner.CopyFrom(*inner_before);
  }
}

// A field that is added to the Plan message must reach the domain, the wire and the key.
TEST(DriftTest, EveryFieldOfThePlanReachesItsKey) {
  v1::Plan wire = ToWire(FullPlan());
  EXPECT_THAT(UnsetFields(wire), testing::IsEmpty());
  const PlanKey key = MakePlanKey(FullPlan());
  int changes = 0;
  ForEachChange(wire, wire, [&](const std::string& field) {
    ++changes;
    std::vector<FieldViolation> found;
    const PlanRequest plan = ReadPlan(MessageReader(wire, "", found));
    EXPECT_TRUE(found.empty()) << field << ": " << found.front().description;
    EXPECT_TRUE(MessageDifferencer::Equals(ToWire(plan), wire)) << field;
    EXPECT_NE(MakePlanKey(Chosen(plan)).text, key.text) << field;
  });
  // The plan, its recompute; a stage, its recompute; a group, its stage and that one's recompute.
  EXPECT_EQ(changes, 19 + 4 + (8 + 4) + (2 + 8 + 4));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
