#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using google::protobuf::FieldDescriptor;
using testing::IsEmpty;

struct MistakeCase {
  std::string name;
  std::string text;  // text of a TuneRequest
  std::vector<FieldViolation> mistakes;
};

const MistakeCase kMistakes[] = {
    {"MisspeltKey",
     R"({"model": {"layer_cuont": 3}})",
     {{"model.layer_cuont", "unknown field; did you mean \"layer_count\"?"}}},
    {"AbbreviatedKey",
     R"({"model": {"vocab": 3}})",
     {{"model.vocab", "unknown field; did you mean \"vocab_size\"?"}}},
    {"CamelCaseKey",
     R"({"workload": {"globalBatchSize": 3}})",
     {{"workload.globalBatchSize", "unknown field; did you mean \"global_batch_size\"?"}}},
    {"StrangeKey",
     R"({"cluster": {"xyz": 3}})",
     {{"cluster.xyz",
       "unknown field; must be one of name, pools, topology, inter_pool, "
       "pool_links"}}},
    {"KeyThatBreaksLines",
     R"({"cluster": {"a\nb\u0000": 3}})",
     {{"cluster.a\\nb\\u0000",
       "unknown field; must be one of name, pools, topology, inter_pool, "
       "pool_links"}}},
    {"ControlCharacter",
     R"({"model": {"mlp": "gelu\u0000"}})",
     {{"model.mlp", R"("gelu\u0000"; must have no control characters, but byte 5 is U+0000)"}}},
    {"LineInAWord",
     R"({"disabled_rules": ["memory", "a\nb"]})",
     {{"disabled_rules[1]",
       R"("a\u000ab"; must have no control characters, but byte 2 is U+000A)"}}},
    {"EscapeInACommand",
     R"({"trials": {"job": {"command": ["sh", "-c", "ls\n\tls\u001b"]}}})",
     {{"trials.job.command[2]",
       R"("ls\u000a\u0009ls\u001b"; must have no control characters, but byte 7 is U+001B)"}}},
    {"TextForInt",
     R"({"model": {"layer_count": "40"}})",
     {{"model.layer_count", "\"40\"; must be a whole number"}}},
    {"FractionForInt",
     R"({"model": {"layer_count": 40.5}})",
     {{"model.layer_count", "40.5; must be a whole number"}}},
    {"IntTooLarge",
     R"({"model": {"layer_count": 2147483648}})",
     {{"model.layer_count", "2147483648; must be between -2147483648 and 2147483647"}}},
    {"IntFarTooLarge",
     R"({"model": {"layer_count": 1e30}})",
     {{"model.layer_count", "1e+30; must be between -2147483648 and 2147483647"}}},
    {"Int64TooLarge",
     R"({"cluster": {"pools": [{"memory_capacity_bytes": 9223372036854775808}]}})",
     {{"cluster.pools[0].memory_capacity_bytes", "9.223372036854776e+18; must be a whole number"}}},
    {"TextThatIsNoInt64",
     R"({"cluster": {"pools": [{"memory_capacity_bytes": "80GB"}]}})",
     {{"cluster.pools[0].memory_capacity_bytes", "\"80GB\"; must be a whole number"}}},
    {"NumberForBool",
     R"({"workload": {"grouped_gemm": 1}})",
     {{"workload.grouped_gemm", "1; must be true or false"}}},
    {"BoolForDouble",
     R"({"workload": {"dropout_ratio": true}})",
     {{"workload.dropout_ratio", "true; must be a number"}}},
    {"NumberForText",
     R"({"workload": {"precision": 16}})",
     {{"workload.precision", "16; must be a string"}}},
    {"ObjectForArray",
     R"({"cluster": {"pools": {}}})",
     {{"cluster.pools", "an object; must be an array"}}},
    {"NumberForObject", R"({"model": 7})", {{"model", "7; must be an object"}}},
    {"NullInArray",
     R"({"disabled_rules": ["memory", null]})",
     {{"disabled_rules[1]", "null; must be a string"}}},
    {"KeyTwice",
     R"({"model": {"name": "a", "name": "b"}})",
     {{"model.name", "given twice; must be given once"}}},
    {"EveryMistakeInTheOrderOfTheText",
     R"({"workload": {"precision": 1, "overlap": []}, "plan_cont": 1, "model": {"name": 2}})",
     {{"workload.precision", "1; must be a string"},
      {"workload.overlap", "an array; must be an object"},
      {"plan_cont", "unknown field; did you mean \"plan_count\"?"},
      {"model.name", "2; must be a string"}}},
    {"NoObject", R"([1])", {{"", "an array; must be an object"}}},
};

class MistakeTest : public testing::TestWithParam<MistakeCase> {};

TEST_P(MistakeTest, IsNamed) {
  v1::TuneRequest request;
  EXPECT_EQ(ParseJson(GetParam().text, "", request), GetParam().mistakes);
}

INSTANTIATE_TEST_SUITE_P(All, MistakeTest, testing::ValuesIn(kMistakes),
                         [](const auto& param) { return param.param.name; });

TEST(ParseJsonTest, PathsStartWithThePrefix) {
  v1::Model model;
  const std::vector<FieldViolation> expected = {
      {"model.moe.expert_count", "true; must be a whole number"}};
  EXPECT_EQ(ParseJson(R"({"moe": {"expert_count": true}})", "model", model), expected);
}

TEST(ParseJsonTest, TextThatIsNoJsonIsOneMistakeOfThePrefix) {
  for (const std::string text : {"", "{", "{\"a\": 1} x", "{\"name\": 1e999}", "\xff"}) {
    v1::Model model;
    const std::vector<FieldViolation> found = ParseJson(text, "model", model);
    ASSERT_EQ(found.size(), 1u) << text;
    EXPECT_EQ(found[0].field, "model");
    EXPECT_THAT(found[0].description, testing::StartsWith("not JSON; ")) << text;
  }
}

TEST(ParseJsonTest, SaysWhereTheTextIsNoJson) {
  v1::Model model;
  const std::vector<FieldViolation> found = ParseJson("{\n  \"name\": }", "", model);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].description, testing::HasSubstr("line 2, column 11"));
}

TEST(ParseJsonTest, DeepNestingIsAMistakeAndNoCrash) {
  v1::Model model;
  const std::vector<FieldViolation> found = ParseJson(std::string(1'000'000, '['), "x", model);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].description, "not JSON; nested deeper than 64 levels");
}

TEST(ParseJsonTest, FieldsWithoutMistakeAreSet) {
  v1::Model model;
  const auto found = ParseJson(
      R"({"name": "m", "layer_count": "x", "hidden_size": 2048.0, "name": 1})", "", model);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(model.name(), "m");
  EXPECT_EQ(model.hidden_size(), 2048);
  EXPECT_FALSE(model.has_layer_count());
}

TEST(ParseJsonTest, NullIsNotStated) {
  v1::Workload workload;
  EXPECT_THAT(ParseJson(R"({"precision": null, "overlap": null})", "", workload), IsEmpty());
  EXPECT_FALSE(workload.has_precision());
  EXPECT_FALSE(workload.has_overlap());
}

TEST(ParseJsonTest, ZeroAndEmptyAreStated) {
  v1::Workload workload;
  EXPECT_THAT(ParseJson(R"({"dropout_ratio": 0, "overlap": {}, "precision": ""})", "", workload),
              IsEmpty());
  EXPECT_TRUE(workload.has_dropout_ratio());
  EXPECT_TRUE(workload.has_overlap());
  EXPECT_TRUE(workload.has_precision());
}

TEST(ParseJsonTest, ReadsInt64AsNumberAndAsText) {
  for (const std::string number : {"85899345920", "\"85899345920\"", "85899345920.0"}) {
    v1::NodePool pool;
    EXPECT_THAT(ParseJson("{\"memory_capacity_bytes\": " + number + "}", "", pool), IsEmpty());
    EXPECT_EQ(pool.memory_capacity_bytes(), 85'899'345'920) << number;
  }
}

TEST(ParseJsonTest, ReadsMapsAndLists) {
  v1::Estimate estimate;
  EXPECT_THAT(ParseJson(R"({"breakdown_seconds": {"matmul": 1, "host": 0.5},
                            "memory_breakdown_bytes": {"weights": "3"},
                            "peak_memory_bytes_by_stage": [1, "2"], "warnings": ["w"],
                            "applied_defaults": [{"field": "f"}, {}]})",
                        "", estimate),
              IsEmpty());
  EXPECT_EQ(estimate.breakdown_seconds().at("matmul"), 1.0);
  EXPECT_EQ(estimate.breakdown_seconds().at("host"), 0.5);
  EXPECT_EQ(estimate.memory_breakdown_bytes().at("weights"), 3);
  EXPECT_THAT(estimate.peak_memory_bytes_by_stage(), testing::ElementsAre(1, 2));
  EXPECT_THAT(estimate.warnings(), testing::ElementsAre("w"));
  ASSERT_EQ(estimate.applied_defaults_size(), 2);
  EXPECT_EQ(estimate.applied_defaults(0).field(), "f");
}

TEST(ParseJsonTest, ReadsMapsOfMessages) {
  v1::RankedPlan plan;
  EXPECT_THAT(
      ParseJson(R"({"launches": {"a": {"command": "run", "left_out": ["x"]}, "b": {}}})", "", plan),
      IsEmpty());
  ASSERT_EQ(plan.launches_size(), 2);
  EXPECT_EQ(plan.launches().at("a").command(), "run");
  EXPECT_THAT(plan.launches().at("a").left_out(), testing::ElementsAre("x"));
  const std::vector<FieldViolation> expected = {{"launches.a.command", "1; must be a string"},
                                                {"launches.b", "2; must be an object"}};
  EXPECT_EQ(ParseJson(R"({"launches": {"a": {"command": 1}, "b": 2}})", "", plan), expected);
}

TEST(ParseJsonTest, MapKeysAreNamedInPaths) {
  v1::Estimate estimate;
  const std::vector<FieldViolation> expected = {
      {"breakdown_seconds.matmul", "\"x\"; must be a number"},
      {"breakdown_seconds.host", "given twice; must be given once"}};
  EXPECT_EQ(
      ParseJson(R"({"breakdown_seconds": {"matmul": "x", "host": 1, "host": 2}})", "", estimate),
      expected);
}

bool IsReadable(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_BOOL:
    case FieldDescriptor::CPPTYPE_STRING:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return true;
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_ENUM:
      return false;
  }
  return false;
}

// proto/json/json.h supports exactly the kinds of fields that the schema uses.
TEST(JsonTest, SchemaHasOnlyFieldsThatJsonKnows) {
  for (const auto* file : {v1::Model::descriptor()->file(), v1::Estimate::descriptor()->file(),
                           v1::TuneRequest::descriptor()->file()}) {
    for (int i = 0; i < file->message_type_count(); ++i) {
      const auto& message = *file->message_type(i);
      for (int j = 0; j < message.field_count(); ++j) {
        const FieldDescriptor& field = *message.field(j);
        EXPECT_TRUE(IsReadable(field)) << field.full_name();
        if (!field.is_map()) continue;
        EXPECT_EQ(field.message_type()->map_key()->cpp_type(), FieldDescriptor::CPPTYPE_STRING);
      }
    }
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
