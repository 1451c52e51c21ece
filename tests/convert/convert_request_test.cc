#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "server/convert/convert.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kQuestion[] = R"(
  "model": {"name": "tiny", "layer_count": 4, "hidden_size": 512, "ffn_hidden_size": 2048,
            "attention_head_count": 8, "vocab_size": 32000, "mlp": "gelu", "norm": "layernorm"},
  "workload": {"sequence_length": 1024, "global_batch_size": 64},
  "cluster": {"name": "c", "pools": [{"chip": "nvidia-a100-sxm4-80gb", "node_count": 1}]})";

const Knowledge& Known() {
  static const Knowledge* const knowledge = new Knowledge(LoadKnowledge("").value());
  return *knowledge;
}

absl::StatusOr<StudyRequest> Read(const std::string& json) {
  v1::TuneRequest request;
  std::vector<FieldViolation> mistakes = ParseJson(json, "", request);
  ASSIGN_OR_RETURN(ResolvedStudy study, FromWire(request, Known(), std::move(mistakes)));
  return std::move(study.request);
}

// Writing a field of the question twice would be a mistake, so the parts are replaced whole.
std::string WithModel(const std::string& model) {
  return R"({"workload": {"sequence_length": 1024, "global_batch_size": 64},
             "cluster": {"pools": [{"chip": "nvidia-a100-sxm4-80gb", "node_count": 1}]},)" +
         model + "}";
}

TEST(ConvertRequestTest, FillsWhatFollowsFromOtherFields) {
  const auto request = Read(std::string("{") + kQuestion + "}");
  ASSERT_TRUE(request.ok()) << request.status();
  const ModelSpec& model = request->question.model;
  EXPECT_EQ(model.kv_head_count, 8);  // attention_head_count
  EXPECT_EQ(model.head_dim, 64);      // 512 / 8
  EXPECT_EQ(model.mlp, MlpKind::kGelu);
  EXPECT_FALSE(model.tied_embeddings);
  EXPECT_FALSE(model.moe.has_value());
  EXPECT_EQ(request->plan_count, 5);
  EXPECT_EQ(request->choice, ChoiceLimits());
  EXPECT_EQ(request->strategy, "exhaustive");
  EXPECT_FALSE(request->deadline.has_value());
  EXPECT_FALSE(request->baseline.has_value());
  EXPECT_FALSE(request->question.workload.precision.has_value());
}

struct MistakeCase {
  std::string name;
  std::string text;
  std::vector<FieldViolation> mistakes;
};

std::string WithQuestion(const std::string& more) {
  return std::string("{") + kQuestion + ", " + more + "}";
}

// Returns a row with `outcome` and what follows it: "oom", "step_time_seconds": 0
std::string HistoryRowText(const std::string& outcome) {
  return std::string("{") + kQuestion + R"(, "plan": {}, "outcome": )" + outcome + "}";
}

const MistakeCase kMistakes[] = {
    {"Nothing",
     "{}",
     {{"model", "missing; required"},
      {"workload", "missing; required"},
      {"cluster", "missing; required"}}},
    {"NoModelField",
     WithModel(R"("model": {})"),
     {{"model.layer_count", "missing; required"},
      {"model.hidden_size", "missing; required"},
      {"model.ffn_hidden_size", "missing; required"},
      {"model.attention_head_count", "missing; required"},
      {"model.vocab_size", "missing; required"},
      {"model.mlp", "missing; required"},
      {"model.norm", "missing; required"}}},
    {"HeadSizeThatDoesNotFollow",
     WithModel(R"("model": {"layer_count": 4, "hidden_size": 100, "ffn_hidden_size": 2048,
                            "attention_head_count": 8, "vocab_size": 32000, "mlp": "gelu",
                            "norm": "layernorm"})"),
     {{"model.head_dim",
       "missing; required if attention_head_count 8 does not divide hidden_size 100"}}},
    {"WrongTypeIsNotAlsoMissing",
     WithModel(R"("model": {"layer_count": "4", "hidden_size": 512, "ffn_hidden_size": 2048,
                            "attention_head_count": 8, "vocab_size": 32000, "mlp": "gelu",
                            "norm": "layernorm"})"),
     {{"model.layer_count", "\"4\"; must be a whole number"}}},
    {"ModelAndConfig",
     WithQuestion(R"("hugging_face_config_json": "{}")"),
     {{"hugging_face_config_json", "stated beside model; must be one of the two"}}},
    {"PlanCount",
     WithQuestion(R"("plan_count": 1001)"),
     {{"plan_count", "1001; must be between 1 and 1000"}}},
    {"Choice",
     WithQuestion(R"("min_fit_probability_ratio": 1, "tie_probability_ratio": 0.4)"),
     {{"min_fit_probability_ratio", "1; must be between 0 and 0.9999"},
      {"tie_probability_ratio", "0.4; must be between 0.5 and 1"}}},
    {"Deadline",
     WithQuestion(R"("deadline_seconds": 0)"),
     {{"deadline_seconds", "0; must be > 0"}}},
    {"HistorySequence",
     WithQuestion(R"("history_sequence": -1)"),
     {{"history_sequence", "-1; must be >= 0"}}},
    {"Baseline",
     WithQuestion(R"("baseline": {"schedule": "2f2b", "recompute": {}, "stages": [{}]})"),
     {{"baseline.schedule",
       "\"2f2b\"; must be one of gpipe, 1f1b, interleaved_1f1b, zb_h1, zb_v, dualpipe, dualpipe_v, "
       "chimera"},
      {"baseline.recompute.granularity", "missing; required"},
      {"baseline.stages[0].pool", "missing; required"},
      {"baseline.stages[0].node_count", "missing; required"},
      {"baseline.stages[0].tensor_parallel", "missing; required"},
      {"baseline.stages[0].data_parallel", "missing; required"},
      {"baseline.stages[0].layer_count", "missing; required"},
      {"baseline.stages[0].micro_batch_size", "missing; required"}}},
    {"History",
     WithQuestion(
         std::string(R"("history": [{)") + kQuestion +
         R"(, "plan": {}, "outcome": "ok"}, {"outcome": "fine", "peak_memory_bytes": 0}])"),
     {{"history[0].step_time_seconds", "missing; required if outcome is ok"},
      {"history[1].model", "missing; required"},
      {"history[1].workload", "missing; required"},
      {"history[1].cluster", "missing; required"},
      {"history[1].plan", "missing; required"},
      {"history[1].outcome", "\"fine\"; must be one of ok, oom, crash, hang, timeout, cancelled"},
      {"history[1].step_time_seconds", "missing; required if outcome is ok"},
      {"history[1].peak_memory_bytes", "0; must be > 0"}}},
    // 0 means "not measured" only if the run did not end well.
    {"HistoryMeasuredNothing",
     WithQuestion(R"("history": [)" + HistoryRowText(R"("ok", "step_time_seconds": 0)") + ", " +
                  HistoryRowText(R"("oom", "step_time_seconds": -1, "peak_memory_bytes": -2)") +
                  "]"),
     {{"history[0].step_time_seconds", "0; must be > 0"},
      {"history[1].step_time_seconds", "-1; must be > 0"},
      {"history[1].peak_memory_bytes", "-2; must be > 0"}}},
    // One answer reports limits of the model and the plan, and an unknown word.
    {"PlanLimitsAndWords",
     R"({"model": {"layer_count": 4, "hidden_size": 512, "ffn_hidden_size": 2048,
                   "attention_head_count": 8, "vocab_size": 32000, "mlp": "gelu",
                   "norm": "layernorm"},
         "workload": {"sequence_length": -1, "global_batch_size": 64},
         "cluster": {"pools": [{"chip": "nvidia-a100-sxm4-80gb", "node_count": 1}]},
         "baseline": {"zero_stage": 7, "micro_batch_size": 0, "schedule": "2f2b"}})",
     {{"workload.sequence_length", "-1; must be >= 1"},
      {"baseline.schedule",
       "\"2f2b\"; must be one of gpipe, 1f1b, interleaved_1f1b, zb_h1, zb_v, dualpipe, dualpipe_v, "
       "chimera"},
      {"baseline.micro_batch_size", "0; must be >= 1"},
      {"baseline.zero_stage", "7; must be <= 3"}}},
};

class MistakeTest : public testing::TestWithParam<MistakeCase> {};

TEST_P(MistakeTest, IsNamed) {
  const auto request = Read(GetParam().text);
  EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldViolations(request.status()), GetParam().mistakes) << request.status();
}

INSTANTIATE_TEST_SUITE_P(All, MistakeTest, testing::ValuesIn(kMistakes),
                         [](const auto& param) { return param.param.name; });

TEST(ConvertRequestTest, FiveMistakesAreFiveViolations) {
  const auto request = Read(R"({
    "model": {"layer_count": 0, "hidden_size": 512, "ffn_hidden_size": 2048,
              "attention_head_count": "8", "vocab_size": 32000, "mlp": "gelu",
              "norm": "layernorm"},
    "workload": {"sequence_length": 1024, "global_batch_size": 64, "precision": "bf61"},
    "cluster": {"pools": [{"chip": "no-such-chip", "node_count": 1, "node_cout": 1}]}})");
  const auto path = [](const std::string& field, const std::string& part) {
    return AllOf(Field(&FieldViolation::field, field),
                 Field(&FieldViolation::description, HasSubstr(part)));
  };
  EXPECT_THAT(FieldViolations(request.status()),
              testing::UnorderedElementsAre(
                  path("model.attention_head_count", "\"8\"; must be a whole number"),
                  path("cluster.pools[0].node_cout", "did you mean \"node_count\"?"),
                  path("workload.precision", "\"bf61\"; must be one of bf16, fp16, fp8, fp32"),
                  path("model.layer_count", "0; must be >= 1"),
                  path("cluster.pools[0].chip", "no-such-chip")));
  EXPECT_EQ(Reason(request.status()), "INVALID_FIELDS");
}

TEST(ConvertRequestTest, FailedRunsMayGiveZeroForWhatTheyDidNotMeasure) {
  const auto request = Read(WithQuestion(
      R"("history": [)" +
      HistoryRowText(R"("oom", "step_time_seconds": 0, "peak_memory_bytes": 0)") + "]"));
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->history.size(), 1u);
  EXPECT_FALSE(request->history[0].step_time.has_value());
  EXPECT_FALSE(request->history[0].peak_memory.has_value());
}

// There are eight devices, and tensor_parallel 3 divides neither them nor the heads.
TEST(ConvertRequestTest, HistoryPlansMustBeLegalForTheirOwnQuestion) {
  const std::string row = std::string("{") + kQuestion +
                          R"(, "plan": {"tensor_parallel": 3, "data_parallel": 1},
                             "outcome": "ok", "step_time_seconds": 1})";
  const std::string good = HistoryRowText(R"("ok", "step_time_seconds": 1)");
  const auto request = Read(WithQuestion(R"("history": [)" + row + ", " + good + ", " + row + "]"));
  std::set<std::string> rows;
  for (const FieldViolation& violation : FieldViolations(request.status())) {
    rows.insert(violation.field.substr(0, violation.field.rfind("plan") + 4));
  }
  EXPECT_THAT(rows, ElementsAre("history[0].plan", "history[2].plan")) << request.status();
}

TEST(ConvertRequestTest, CaseNamesPlanLimitsWithAllElse) {
  v1::EvaluateCase wire;
  auto mistakes = ParseJson(R"({
    "model": {"layer_count": 4, "hidden_size": 512, "ffn_hidden_size": 2048,
              "attention_head_count": 8, "vocab_size": 32000, "mlp": "gelu", "norm": "layernorm"},
    "workload": {"sequence_length": -1, "global_batch_size": 64},
    "cluster": {"pools": [{"chip": "nvidia-a100-sxm4-80gb", "node_count": 1}]},
    "plan": {"zero_stage": 7, "micro_batch_size": 0, "schedule": "2f2b"}})",
                            "", wire);
  QuestionResolver resolver(Known());
  const auto request = FromWire(wire, resolver, std::move(mistakes));
  EXPECT_THAT(FieldViolations(request.status()),
              ElementsAre(Field(&FieldViolation::field, "workload.sequence_length"),
                          Field(&FieldViolation::field, "plan.schedule"),
                          Field(&FieldViolation::field, "plan.micro_batch_size"),
                          Field(&FieldViolation::field, "plan.zero_stage")));
}

TEST(ConvertRequestTest, UnknownWordsListTheKnownOnes) {
  const auto request = Read(WithQuestion(R"("strategy": "magic", "disabled_rules": ["nice"])"));
  EXPECT_THAT(
      FieldViolations(request.status()),
      ElementsAre(
          AllOf(Field(&FieldViolation::field, "strategy"),
                Field(&FieldViolation::description, StartsWith("\"magic\"; must be one of "))),
          AllOf(Field(&FieldViolation::field, "disabled_rules[0]"),
                Field(&FieldViolation::description, StartsWith("\"nice\"; must be one of ")))));
}

TEST(ConvertRequestTest, KnownWordsAreTaken) {
  v1::TuneRequest wire;
  ASSERT_TRUE(ParseJson(std::string("{") + kQuestion + "}", "", wire).empty());
  for (const std::string& strategy : StrategyNames()) {
    wire.set_strategy(strategy);
    const auto request = FromWire(wire, Known());
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->request.strategy, strategy);
  }
  for (const std::string& rule : PruneRuleNames()) wire.add_disabled_rules(rule);
  wire.set_strategy("exhaustive");
  const auto request = FromWire(wire, Known());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->request.disabled_rules, PruneRuleNames());
}

TEST(ConvertRequestTest, EvaluationLimitIsOfStrategiesThatAreAsked) {
  const auto limited = Read(WithQuestion(R"("strategy": "mcmc", "evaluation_limit": 7)"));
  ASSERT_TRUE(limited.ok()) << limited.status();
  EXPECT_EQ(limited->evaluation_limit, 7);
  struct Case {
    const char* json;
    const char* field;
    const char* says;
  };
  for (const Case& c :
       {Case{R"("evaluation_limit": 7)", "evaluation_limit", "exhaustive"},
        Case{R"("strategy": "random", "evaluation_limit": 0)", "evaluation_limit",
             "0; must be > 0"},
        Case{R"("strategy": "random", "pareto": true)", "pareto", "strategy must be exhaustive"},
        Case{R"("strategy": "random", "disabled_rules": ["memory"])", "disabled_rules",
             "only be switched off with exhaustive"}}) {
    const auto request = Read(WithQuestion(c.json));
    EXPECT_THAT(FieldViolations(request.status()),
                ElementsAre(AllOf(Field(&FieldViolation::field, c.field),
                                  Field(&FieldViolation::description, HasSubstr(c.says)))))
        << c.json;
  }
}

TEST(ConvertRequestTest, EveryMistakeOfAReplayIsNamed) {
  const auto request = Read(WithQuestion(R"("strategy": "mcmc",
    "trials": {"launcher": "replay", "max_trials": 0, "stop_within_ratio": 2,
      "interleave_baseline": true, "confirm_plans": 2, "replay": [
      {"plan": {"tensor_parallel": 1}, "outcome": "ok", "step_time_seconds": 1},
      {"plan": {"tensor_parallel": 1}, "outcome": "ok"},
      {"plan": {"tensor_parallel": 1}, "outcome": "late", "step_time_seconds": 1},
      {"plan": {"tensor_parallel": 1}, "outcome": "cancelled"},
      {"outcome": "oom"},
      {"plan": {"tensor_parallel": 3}, "outcome": "oom"},
      {"plan": {"tensor_parallel": 1}, "outcome": "ok", "step_time_seconds": -1}]})"));
  std::vector<std::string> fields;
  for (const FieldViolation& found : FieldViolations(request.status())) {
    fields.push_back(found.field);
  }
  EXPECT_THAT(fields,
              testing::UnorderedElementsAre(
                  "trials.max_trials", "trials.stop_within_ratio", "trials.interleave_baseline",
                  "trials.confirm_plans", "trials.replay[1].step_time_seconds",
                  "trials.replay[2].outcome", "trials.replay[3].outcome", "trials.replay[4].plan",
                  "trials.replay[5].plan.tensor_parallel", "trials.replay[5].plan.data_parallel",
                  "trials.replay[6].step_time_seconds", "strategy"));
}

TEST(ConvertRequestTest, ReplaysAreLimited) {
  const auto fields = [](int rows, int trials) {
    std::string text =
        fmt::format(R"("trials": {{"launcher": "replay", "max_trials": {}, "replay": [)", trials);
    for (int i = 0; i < rows; ++i) {
      text += i > 0 ? "," : "";
      text += R"({"plan": {"tensor_parallel": 1}, "outcome": "oom"})";
    }
    std::vector<std::string> found;
    for (const FieldViolation& violation :
         FieldViolations(Read(WithQuestion(text + "]}")).status())) {
      found.push_back(violation.field + ": " + violation.description);
    }
    return found;
  };
  EXPECT_THAT(fields(4000, 40), ElementsAre());
  EXPECT_THAT(fields(2001, 1'000'000),
              ElementsAre("trials.max_trials: 1000000 of 2001 rows; rows x trials x trials must "
                          "be <= 2000000000"));
  EXPECT_THAT(fields(20'001, 1), ElementsAre("trials.replay: 20001 rows; must be <= 20000"));
}

TEST(ConvertRequestTest, TrialsNeedALauncherAndALimit) {
  const auto bare = Read(WithQuestion(R"("trials": {})"));
  std::vector<std::string> fields;
  for (const FieldViolation& found : FieldViolations(bare.status())) fields.push_back(found.field);
  EXPECT_THAT(fields, ElementsAre("trials.launcher", "trials.max_trials"));
  const auto other = Read(WithQuestion(R"("trials": {"launcher": "pbs", "max_trials": 1})"));
  EXPECT_THAT(FieldViolations(other.status()),
              ElementsAre(AllOf(Field(&FieldViolation::field, "trials.launcher"),
                                Field(&FieldViolation::description,
                                      HasSubstr("\"pbs\"; must be one of replay, local, slurm")))));
  const auto front =
      Read(WithQuestion(R"("pareto": true, "trials": {"launcher": "local", "max_trials": 1, "job": {
          "folder": "jobs", "command": ["x"], "workloads_folder": "w"}})"));
  EXPECT_THAT(FieldViolations(front.status()), Contains(Field(&FieldViolation::field, "pareto")));
  const auto empty = Read(WithQuestion(R"("trials": {"launcher": "replay", "max_trials": 1})"));
  EXPECT_THAT(FieldViolations(empty.status()),
              ElementsAre(Field(&FieldViolation::field, "trials.replay")));
}

TEST(ConvertRequestTest, EveryMistakeInAJobIsNamed) {
  const auto bad = Read(WithQuestion(R"("trials": {"launcher": "local", "max_trials": 1, "job": {
      "folder": "jobs", "command": ["x", "{tensor}"], "environment": ["A TOKEN=1", "TOKEN=1"],
      "engine_flags": ["-p"], "processes_per_node": 0, "time_limit_seconds": -1,
      "queue_limit_seconds": 1e9, "poll_interval_seconds": 0, "workloads_folder": "w",
      "metrics": {"format": "json", "pattern": "x", "measuring_rank": "first", "warmup_steps": -1,
                  "min_steps": 9, "max_steps": 8, "interval_ratio": 1, "start_limit_seconds": 0,
                  "hang_limit_seconds": -1}}})"));
  std::vector<std::string> fields;
  for (const FieldViolation& found : FieldViolations(bad.status())) {
    fields.push_back(found.field.substr(std::string("trials.job.").size()));
  }
  EXPECT_THAT(fields, testing::UnorderedElementsAre(
                          "folder", "command[1]", "environment[0]", "environment[1]",
                          "engine_flags", "processes_per_node", "time_limit_seconds",
                          "queue_limit_seconds", "poll_interval_seconds", "workloads_folder",
                          "metrics.pattern", "metrics.fields", "metrics.measuring_rank",
                          "metrics.warmup_steps", "metrics.max_steps", "metrics.interval_ratio",
                          "metrics.start_limit_seconds", "metrics.hang_limit_seconds"));
}

TEST(ConvertRequestTest, PlansThatTheQuestionDoesNotAllowAreNamedWithAllOtherMistakes) {
  const auto read = Read(WithQuestion(R"("plan_count": 0, "baseline": {"tensor_parallel": 3},
      "trials": {"launcher": "replay", "max_trials": 1, "replay": [
        {"plan": {"tensor_parallel": 3}, "outcome": "oom"},
        {"plan": {"tensor_parallel": 3, "schedule": "2f2b"}, "outcome": "oom"},
        {"plan": {"tensor_parallel": 8}, "outcome": "oom"}]})"));
  std::set<std::string> parts;
  for (const FieldViolation& violation : FieldViolations(read.status())) {
    parts.insert(violation.field.substr(0, violation.field.rfind('.')));
  }
  EXPECT_THAT(parts, ElementsAre("baseline", "plan_count", "trials.replay[0].plan",
                                 "trials.replay[1].plan"));
  // The second row was not read whole, so only what could not be read is named.
  EXPECT_THAT(
      FieldViolations(read.status()),
      testing::Contains(Field(&FieldViolation::field, StartsWith("trials.replay[1]"))).Times(1));
}

TEST(ConvertRequestTest, PlansOfABrokenQuestionAreNotBlamed) {
  const auto read = Read(R"({"baseline": {"tensor_parallel": 3}, "workload": {"sequence_length": 1},
      "model": {"layer_count": 4, "hidden_size": 512, "ffn_hidden_size": 2048, "mlp": "gelu",
                "attention_head_count": 8, "vocab_size": 32000, "norm": "layernorm"},
      "cluster": {"pools": [{"chip": "nvidia-a100-sxm4-80gb", "node_count": 1}]}})");
  EXPECT_THAT(FieldViolations(read.status()),
              ElementsAre(Field(&FieldViolation::field, "workload.global_batch_size")));
}

TEST(ConvertRequestTest, APlanThatTheQuestionDoesNotAllowIsNamedWithAllMistakesOfItsCase) {
  v1::EvaluateCase wire;
  auto mistakes = ParseJson(
      std::string("{") + kQuestion + R"(, "plan": {"tensor_parallel": 3}, "colour": "red"})", "",
      wire);
  QuestionResolver resolver(Known());
  EXPECT_THAT(FieldViolations(FromWire(wire, resolver, std::move(mistakes)).status()),
              AllOf(Contains(Field(&FieldViolation::field, "colour")),
                    Contains(Field(&FieldViolation::field, StartsWith("plan.")))));
}

TEST(ConvertRequestTest, KubernetesIsOfItsLauncherAlone) {
  const auto fields = [](const std::string& launcher, const std::string& job) {
    const auto read = Read(WithQuestion(fmt::format(
        R"("trials": {{"launcher": "{}", "max_trials": 1, "job": {{"folder": "/j"{}}}}})", launcher,
        job)));
    std::vector<std::string> found;
    for (const FieldViolation& violation : FieldViolations(read.status())) {
      found.push_back(violation.field.substr(std::string("trials.job.").size()));
    }
    return found;
  };
  const std::string site =
      R"(, "kubernetes": {"server": "https://k", "namespace": "n", "image": "i", "labels": ["a=b"]})";
  EXPECT_THAT(fields("kubernetes", site), ElementsAre());
  EXPECT_THAT(fields("kubernetes", ""), ElementsAre("kubernetes"));
  EXPECT_THAT(fields("slurm", site), ElementsAre("kubernetes"));
  EXPECT_THAT(fields("kubernetes", site + R"(, "engine_flags": ["-x"])"),
              ElementsAre("engine_flags"));
  EXPECT_THAT(fields("kubernetes", R"(, "slots_folder": "/s",
                                      "kubernetes": {"labels": ["a", "b=c", "b=d"]})"),
              testing::UnorderedElementsAre("kubernetes.server", "kubernetes.namespace",
                                            "kubernetes.image", "kubernetes.labels[0]",
                                            "kubernetes.labels[2]", "slots_folder"));
}

TEST(ConvertRequestTest, JobsAreOfLaunchersThatRunThem) {
  for (const char* const trials :
       {R"({"launcher": "slurm", "max_trials": 1})",
        R"({"launcher": "replay", "max_trials": 1, "job": {"folder": "/j"},
            "replay": [{"plan": {"tensor_parallel": 8}, "outcome": "oom"}]})"}) {
    const auto read = Read(WithQuestion(fmt::format(R"("trials": {})", trials)));
    EXPECT_THAT(FieldViolations(read.status()),
                ElementsAre(Field(&FieldViolation::field, "trials.job")))
        << trials;
  }
}

TEST(ConvertRequestTest, TextThatIsNoJsonIsTheOnlyMistake) {
  v1::EvaluateCase wire;
  QuestionResolver resolver(Known());
  const auto request = FromWire(wire, resolver, ParseJson("{oops", "", wire));
  const std::vector<FieldViolation> found = FieldViolations(request.status());
  ASSERT_EQ(found.size(), 1u) << request.status();
  EXPECT_THAT(found[0].description, StartsWith("not JSON; "));
}

TEST(ConvertRequestTest, ImportsHuggingFaceConfig) {
  v1::TuneRequest wire;
  ASSERT_TRUE(ParseJson(std::string("{") + kQuestion + "}", "", wire).empty());
  wire.clear_model();
  wire.set_hugging_face_config_json(
      R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 256,
          "intermediate_size": 688, "num_attention_heads": 4, "vocab_size": 1000})");
  const auto request = FromWire(wire, Known());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->request.question.model.layer_count, 2);
  EXPECT_EQ(request->request.question.model.head_dim, 64);  // 256 / 4
}

TEST(ConvertRequestTest, UnknownModelFamilyKeepsItsReason) {
  v1::TuneRequest wire;
  ASSERT_TRUE(ParseJson(std::string("{") + kQuestion + "}", "", wire).empty());
  wire.clear_model();
  wire.set_hugging_face_config_json(R"({"model_type": "bert"})");
  const auto alone = FromWire(wire, Known());
  EXPECT_EQ(Reason(alone.status()), "UNKNOWN_MODEL_FAMILY");
  wire.set_plan_count(0);
  const auto with_more = FromWire(wire, Known());
  EXPECT_EQ(Reason(with_more.status()), "INVALID_FIELDS");
  EXPECT_EQ(FieldViolations(with_more.status()).size(), 2u) << with_more.status();
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
