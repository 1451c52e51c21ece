#include <gtest/gtest.h>

#include <stop_token>
#include <string>

#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "server/convert/convert.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {
namespace {

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

TEST(AnswerCasesTest, EndsWhenTheCallerHasGone) {
  v1::EvaluatePlansRequest request;
  request.add_cases();
  std::stop_source cancel;
  EXPECT_TRUE(AnswerCases(request, Known(), {}, cancel.get_token()).ok());
  cancel.request_stop();
  EXPECT_TRUE(absl::IsCancelled(AnswerCases(request, Known(), {}, cancel.get_token()).status()));
}

}  // namespace
}  // namespace meshwright
