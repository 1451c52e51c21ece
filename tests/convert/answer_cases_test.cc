#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>
#include <string>

#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "server/convert/convert.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr char kCase[] = R"({
  "model": {"name": "tiny", "layer_count": 4, "hidden_size": 512, "ffn_hidden_size": 2048,
            "attention_head_count": 8, "vocab_size": 32000, "mlp": "gelu", "norm": "layernorm"},
  "workload": {"sequence_length": 1024, "global_batch_size": 64},
  "cluster": {"name": "c", "pools": [{"chip": "nvidia-a100-sxm4-80gb", "node_count": 1}]},
  "plan": {"tensor_parallel": 1, "data_parallel": 8}})";

const Knowledge& Known() {
  static const Knowledge* const knowledge = new Knowledge(LoadKnowledge("").value());
  return *knowledge;
}

TEST(AnswerCasesTest, BadCasesDoNotFailTheOthers) {
  v1::EvaluatePlansRequest request;
  for (const std::string id : {"good", "bad", ""}) {
    v1::EvaluateCase& wire = *request.add_cases();
    ASSERT_TRUE(ParseJson(kCase, "", wire).empty());
    if (!id.empty()) wire.set_id(id);
    if (id == "bad") wire.mutable_workload()->set_precision("int4");
  }
  const v1::EvaluatePlansResponse response = AnswerCases(request, Known()).value();
  ASSERT_EQ(response.answers_size(), 3);
  ASSERT_TRUE(response.answers(0).has_estimate()) << response.ShortDebugString();
  EXPECT_EQ(response.answers(0).estimate().id(), "good");
  EXPECT_GT(response.answers(0).estimate().step_time_seconds(), 0);
  ASSERT_TRUE(response.answers(1).has_failed());
  EXPECT_EQ(response.answers(1).failed().id(), "bad");
  EXPECT_EQ(PrintJson(response.answers(1).failed().error(), {}),
            R"({"reason": "INVALID_FIELDS", "message": "workload.precision = \"int4\"; must be )"
            R"(one of bf16, fp16, fp8, fp32", "fields": [{"field": "workload.precision", )"
            R"("description": "\"int4\"; must be one of bf16, fp16, fp8, fp32"}]})");
  EXPECT_FALSE(response.answers(2).estimate().has_id());
}

TEST(AnswerCasesTest, BadHistoryIsNamedInEveryCase) {
  v1::EvaluatePlansRequest request;
  request.add_cases()->set_id("a");
  request.add_history();
  const v1::EvaluatePlansResponse response = AnswerCases(request, Known()).value();
  ASSERT_EQ(response.answers_size(), 1);
  EXPECT_EQ(response.answers(0).failed().error().fields(0).field(), "history[0].model");
}

void AddCase(const std::string& id, int tensor_parallel, const std::string& group,
             v1::EvaluatePlansRequest& request) {
  v1::EvaluateCase& wire = *request.add_cases();
  ASSERT_TRUE(ParseJson(kCase, "", wire).empty());
  wire.set_id(id);
  if (!group.empty()) wire.set_group(group);
  wire.mutable_plan()->set_tensor_parallel(tensor_parallel);
  wire.mutable_plan()->set_data_parallel(8 / tensor_parallel);
}

TEST(AnswerCasesTest, RanksTheCasesOfAGroup) {
  v1::EvaluatePlansRequest request;
  AddCase("slow", 8, "one", request);
  AddCase("fast", 1, "one", request);
  AddCase("wrong", 3, "one", request);
  AddCase("other", 8, "two", request);
  AddCase("alone", 1, "", request);
  const v1::EvaluatePlansResponse response = AnswerCases(request, Known()).value();
  EXPECT_EQ(response.answers(0).estimate().choice_rank(), 2);
  EXPECT_EQ(response.answers(1).estimate().choice_rank(), 1);
  EXPECT_TRUE(response.answers(2).has_failed());
  EXPECT_EQ(response.answers(3).estimate().choice_rank(), 1);
  EXPECT_FALSE(response.answers(4).estimate().has_choice_rank());
}

// Step times of different work cannot be compared.
TEST(AnswerCasesTest, AGroupOfDifferentWorkIsWarnedOf) {
  v1::EvaluatePlansRequest request;
  AddCase("a", 1, "g", request);
  AddCase("b", 2, "g", request);
  AddCase("c", 2, "h", request);
  request.mutable_cases(1)->mutable_workload()->set_global_batch_size(128);
  const v1::EvaluatePlansResponse response = AnswerCases(request, Known()).value();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(response.answers(i).estimate().warnings(),
                testing::Contains(testing::AllOf(
                    testing::HasSubstr("the cases of group g do different work"),
                    testing::HasSubstr("64 sequences of 1024 tokens on 8 devices"),
                    testing::HasSubstr("128 sequences of 1024 tokens on 8 devices"))));
  }
  EXPECT_THAT(response.answers(2).estimate().warnings(),
              testing::Each(testing::Not(testing::HasSubstr("different work"))));
}

TEST(AnswerCasesTest, ComparesPairs) {
  v1::EvaluatePlansRequest request;
  AddCase("slow", 8, "", request);
  AddCase("fast", 1, "", request);
  AddCase("wrong", 3, "", request);
  AddCase("twice", 1, "", request);
  AddCase("twice", 2, "", request);
  const auto add = [&](const std::string& a, const std::string& b) {
    v1::CasePair& pair = *request.add_pairs();
    if (!a.empty()) pair.set_a(a);
    if (!b.empty()) pair.set_b(b);
  };
  add("fast", "slow");
  add("slow", "fast");
  add("fast", "fast");
  add("absent", "wrong");
  add("twice", "");
  const v1::EvaluatePlansResponse response = AnswerCases(request, Known()).value();
  ASSERT_EQ(response.pairs_size(), 5);
  EXPECT_EQ(response.pairs(0).a(), "fast");
  EXPECT_EQ(response.pairs(0).b(), "slow");
  EXPECT_GT(response.pairs(0).faster_probability_ratio(), 0.9);
  EXPECT_NEAR(response.pairs(1).faster_probability_ratio(),
              1 - response.pairs(0).faster_probability_ratio(), 1e-12);
  EXPECT_EQ(response.pairs(2).faster_probability_ratio(), 0.5);
  ASSERT_EQ(response.pairs(3).error().fields_size(), 2);
  EXPECT_EQ(response.pairs(3).error().fields(0).description(), "\"absent\"; no case has this id");
  EXPECT_THAT(response.pairs(3).error().fields(1).description(),
              testing::StartsWith("\"wrong\"; this case has no estimate: "));
  ASSERT_EQ(response.pairs(4).error().fields_size(), 2);
  EXPECT_EQ(response.pairs(4).error().fields(0).description(),
            "\"twice\"; several cases have this id");
  EXPECT_EQ(response.pairs(4).error().fields(1).description(), "missing; required");
}

TEST(AnswerCasesTest, EndsWhenTheCallerHasGone) {
  v1::EvaluatePlansRequest request;
  request.add_cases();
  std::stop_source cancel;
  EXPECT_TRUE(AnswerCases(request, Known(), {}, cancel.get_token()).ok());
  cancel.request_stop();
  EXPECT_TRUE(absl::IsCancelled(AnswerCases(request, Known(), {}, cancel.get_token()).status()));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
