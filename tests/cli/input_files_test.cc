#include "cli/input/input_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/input/known_chips.h"
#include "cli/input/stated_case.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/question_resolver.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

class InputFilesTest : public testing::Test {
 protected:
  [[nodiscard]] std::string Write(const std::string& name, const std::string& text) const {
    return folder_.Write(name, text);
  }

  const TemporaryFolder folder_;
};

constexpr char kLlama[] =
    R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
        "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100})";

TEST_F(InputFilesTest, HuggingFaceConfigIsCalledByItsFolder) {
  const auto parsed =
      ReadTuneRequest({.question = {.model = Write("tiny-llama/config.json", kLlama),
                                    .workload = Write("w.json", "{}"),
                                    .cluster = {.source = Write("c.json", "{}")}}},
                      "");
  EXPECT_THAT(parsed.violations, IsEmpty());
  EXPECT_EQ(parsed.message.model().name(), "tiny-llama");
  EXPECT_EQ(parsed.message.model().layer_count(), 2);
}

TEST_F(InputFilesTest, MistakesOfAllFilesAtOnce) {
  const auto parsed =
      ReadTuneRequest({.question = {.model = Write("m.json", R"({"layers": 2})"),
                                    .workload = Write("w.json", R"({"sequence_length": "4k"})"),
                                    .cluster = {.source = folder_.File("absent.json")}}},
                      "");
  EXPECT_THAT(parsed.violations,
              ElementsAre(Field(&FieldViolation::field, "model.layers"),
                          Field(&FieldViolation::field, "workload.sequence_length"),
                          Field(&FieldViolation::field, "cluster")));
  EXPECT_THAT(parsed.violations.back().description, HasSubstr("No such file"));
}

TEST_F(InputFilesTest, FlagsOfTheSearch) {
  const auto parsed = ReadTuneRequest({.question = {.model = Write("m.json", "{}"),
                                                    .workload = Write("w.json", "{}"),
                                                    .cluster = {.source = Write("c.json", "{}")}},
                                       .plan_count = 3,
                                       .deadline_seconds = 0.5,
                                       .strategy = "exhaustive",
                                       .evaluation_limit = 12,
                                       .disabled_rules = {"memory", "topology"}},
                                      "");
  EXPECT_EQ(parsed.message.plan_count(), 3);
  EXPECT_EQ(parsed.message.deadline_seconds(), 0.5);
  EXPECT_EQ(parsed.message.strategy(), "exhaustive");
  EXPECT_EQ(parsed.message.evaluation_limit(), 12);
  EXPECT_THAT(parsed.message.disabled_rules(), ElementsAre("memory", "topology"));
  EXPECT_FALSE(parsed.message.has_baseline());
}

constexpr char kScript[] =
    "N=${NODES:-1}\n"
    "torchrun --nnodes $N --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
    "--num-attention-heads 32 --seq-length 2048 --micro-batch-size 1 --global-batch-size 64 --bf16 "
    "--tensor-model-parallel-size 2 --frobnicate\n";
constexpr char kCluster[] = R"({"pools": [{"chip": "a", "node_count": 2, "devices_per_node": 8}]})";

TEST_F(InputFilesTest, LaunchScriptFillsTheQuestion) {
  const auto parsed = ReadTuneRequest(
      {.question = {.from = {.path = Write("run.sh", kScript), .variables = {"NODES=2"}},
                    .model = Write("m.json", R"({"vocab_size": 50304})"),
                    .workload = Write("w.json", R"({"sequence_length": 4096})"),
                    .cluster = {.source = Write("c.json", kCluster)}}},
      "");
  EXPECT_THAT(parsed.violations, IsEmpty());
  const v1::TuneRequest& request = parsed.message;
  EXPECT_EQ(request.model().name(), "run");
  EXPECT_EQ(request.model().layer_count(), 32);
  EXPECT_EQ(request.model().vocab_size(), 50304);
  EXPECT_EQ(request.workload().sequence_length(), 4096);
  EXPECT_EQ(request.workload().global_batch_size(), 64);
  EXPECT_EQ(request.workload().framework().name(), "megatron-core");
  EXPECT_EQ(request.baseline().tensor_parallel(), 2);
  EXPECT_EQ(request.baseline().data_parallel(), 8);
  EXPECT_THAT(parsed.notes, testing::Contains(HasSubstr("not known, and not used: frobnicate")));
}

// The usual node of an H100 has 8 devices: 4 nodes / tensor parallelism 2 = 16 replicas.
TEST_F(InputFilesTest, ClusterByFlagsHasTheUsualNodes) {
  std::string script = kScript;
  script.replace(script.find("--nproc_per_node 8"), 18, "--nproc_per_node $GPUS");
  const TuneFlags flags = {
      .question = {.from = {.path = Write("run.sh", script)},
                   .model = Write("m.json", R"({"vocab_size": 50304})"),
                   .cluster = {.chip = "nvidia-h100-sxm5-80gb", .node_count = 4}}};
  const auto parsed = ReadTuneRequest(flags, "");
  EXPECT_THAT(parsed.violations, IsEmpty());
  EXPECT_EQ(parsed.message.baseline().data_parallel(), 16);
  EXPECT_FALSE(parsed.message.cluster().pools(0).has_devices_per_node());
  EXPECT_THAT(parsed.notes, testing::Contains(HasSubstr("read as the 32 devices of the cluster")));
}

TEST(ChipIdTest, IsThatOfAnyName) {
  EXPECT_EQ(ChipIdOf("", "NVIDIA H100 80GB HBM3").value(), "nvidia-h100-sxm5-80gb");
  EXPECT_EQ(ChipIdOf("", "acme-of-the-server").value(), "acme-of-the-server");
  EXPECT_EQ(ChipIdOf("", "").value(), "");
  const absl::Status several = ChipIdOf("", "A100").status();
  ASSERT_THAT(FieldViolations(several), testing::SizeIs(1));
  EXPECT_EQ(FieldViolations(several).front().field, "chip");
  EXPECT_THAT(FieldViolations(several).front().description,
              testing::StartsWith("A100; names several chips: nvidia-a100-pcie-80gb, "));
}

TEST_F(InputFilesTest, LaunchScriptAndModelMustAgree) {
  const auto parsed =
      ReadTuneRequest({.question = {.from = {.path = Write("run.sh", kScript)},
                                    .model = Write("m.json", R"({"layer_count": 40})"),
                                    .cluster = {.source = Write("c.json", "{}")}}},
                      "");
  EXPECT_THAT(parsed.violations,
              ElementsAre(FieldViolation{"model.layer_count", "40 in --model and 32 in run.sh"}));
}

TEST_F(InputFilesTest, LaunchScriptWithoutItsVocabulary) {
  const auto parsed = ReadTuneRequest({.question = {.from = {.path = Write("run.sh", kScript)},
                                                    .cluster = {.source = Write("c.json", "{}")}}},
                                      "");
  EXPECT_THAT(parsed.violations,
              ElementsAre(Field(&FieldViolation::description, HasSubstr("vocab_size"))));
  const auto other = ReadTuneRequest({.question = {.from = {.path = folder_.File("absent.sh")},
                                                   .cluster = {.source = Write("c.json", "{}")}}},
                                     "");
  EXPECT_THAT(other.violations, ElementsAre(Field(&FieldViolation::field, "from")));
}

// The baseline takes what the question states; it may be of another framework's form.
TEST_F(InputFilesTest, BaselineIsALaunchFile) {
  const auto parsed = ReadTuneRequest(
      {.question = {.model = Write("m.json", R"({"layer_count": 32, "hidden_size": 4096})"),
                    .workload = Write("w.json", R"({"global_batch_size": 64})"),
                    .cluster = {.source = Write("c.json", kCluster)}},
       .baseline = Write("ds.json", R"({"train_micro_batch_size_per_gpu": 2,
                                        "zero_optimization": {"stage": 3}})")},
      "");
  EXPECT_THAT(parsed.violations, IsEmpty());
  EXPECT_EQ(parsed.message.baseline().zero_stage(), 3);
  EXPECT_EQ(parsed.message.baseline().micro_batch_size(), 2);
  EXPECT_EQ(parsed.message.baseline().data_parallel(), 16);
  EXPECT_FALSE(parsed.message.workload().has_framework());
}

TEST_F(InputFilesTest, LaunchScriptIsACase) {
  const auto parsed = ReadStatedCase(
      {.question = {.from = {.path = Write("run.sh", kScript), .variables = {"NODES=2"}},
                    .model = Write("m.json", R"({"vocab_size": 50304})"),
                    .cluster = {.source = Write("c.json", kCluster)}}},
      "");
  EXPECT_THAT(parsed.violations, IsEmpty());
  EXPECT_EQ(parsed.message.id(), "run.sh");
  EXPECT_EQ(parsed.message.plan().tensor_parallel(), 2);
  EXPECT_EQ(parsed.message.cluster().pools_size(), 1);
}

// A question by flags, and the plan beside it; the mistakes of the plan are not those of a
// baseline.
TEST_F(InputFilesTest, FlagsAndAPlanAreACase) {
  const CaseFlags flags = {
      .question = {.model = Write("m.json", R"({"layer_count": 32, "hidden_size": 4096})"),
                   .sequence_length = 4096,
                   .global_batch_size = 64,
                   .cluster = {.chip = "nvidia-h100-sxm5-80gb", .node_count = 4},
                   .framework = "megatron-core"},
      .plan = Write("p.yaml", "tensor_parallel: 4\npipeline: 2\n")};
  EXPECT_TRUE(HasQuestion(flags));
  const auto parsed = ReadStatedCase(flags, "");
  EXPECT_THAT(parsed.violations, ElementsAre(Field(&FieldViolation::field, "plan.pipeline")));
  EXPECT_EQ(parsed.message.id(), "p.yaml");
  EXPECT_EQ(parsed.message.plan().tensor_parallel(), 4);
  EXPECT_EQ(parsed.message.workload().sequence_length(), 4096);
  EXPECT_EQ(parsed.message.workload().framework().name(), "megatron-core");
  EXPECT_EQ(parsed.message.cluster().pools(0).node_count(), 4);
  EXPECT_FALSE(HasQuestion({.question = {.framework = "flagscale"}, .plan = "case.yaml"}));
}

TEST_F(InputFilesTest, AModelThatIsNotReadIsAMistakeOfACase) {
  const auto parsed =
      ReadStatedCase({.question = {.model = Write("m.json", R"({"model_type": "bert"})"),
                                   .cluster = {.source = Write("c.json", kCluster)}},
                      .plan = Write("p.json", "{}")},
                     "");
  EXPECT_THAT(parsed.violations, ElementsAre(Field(&FieldViolation::field, "model")));
}

TEST_F(InputFilesTest, HistoryCountsItsLines) {
  const auto parsed = ReadHistoryFile(Write("h.jsonl", "{\"outcome\": \"ok\"}\n\n{\"x\": 1}\n"));
  EXPECT_EQ(parsed.message.history_size(), 2);
  EXPECT_THAT(parsed.violations, ElementsAre(Field(&FieldViolation::field, "history[1].x")));
}

TEST(ParseCaseTest, ImportsHuggingFaceModels) {
  const auto parsed = ParseCase(std::string(R"({"id": "a", "model": )") + kLlama + "}");
  EXPECT_THAT(parsed.violations, IsEmpty());
  EXPECT_EQ(parsed.message.id(), "a");
  EXPECT_EQ(parsed.message.model().hidden_size(), 64);
}

TEST(ParseCaseTest, BadHuggingFaceModelBesideOtherMistakes) {
  const auto parsed = ParseCase(R"({"id": 7, "model": {"model_type": "bert"}})");
  EXPECT_THAT(parsed.violations, ElementsAre(Field(&FieldViolation::field, "id"),
                                             Field(&FieldViolation::field, "model")));
  EXPECT_TRUE(parsed.is_json_object);
}

const Knowledge& Known() {
  static const Knowledge* const knowledge = new Knowledge(LoadKnowledge("").value());
  return *knowledge;
}

// Returns a case with this "model" and no other mistake.
std::string CaseWithModel(const std::string& model) {
  return R"({"workload": {"sequence_length": 1024, "global_batch_size": 64}, "plan": {},
             "cluster": {"pools": [{"chip": "nvidia-a100-sxm4-80gb", "node_count": 1}]},
             "model": )" +
         model + "}";
}

absl::Status StatusOf(const std::string& json) {
  QuestionResolver resolver(Known());
  return CheckCase(ParseCase(json), resolver).status();
}

TEST(CheckCaseTest, UnknownModelFamilyKeepsItsReason) {
  const absl::Status alone = StatusOf(CaseWithModel(R"({"model_type": "bert"})"));
  EXPECT_EQ(Reason(alone), "UNKNOWN_MODEL_FAMILY");
  EXPECT_THAT(FieldViolations(alone), ElementsAre(Field(&FieldViolation::field, "model")));
}

TEST(CheckCaseTest, EachBadKeyOfAConfigHasItsOwnPath) {
  const absl::Status status = StatusOf(CaseWithModel(R"({"model_type": "llama", "hidden_size": "x",
                                 "intermediate_size": 128, "num_attention_heads": 4,
                                 "num_hidden_layers": [], "vocab_size": 100})"));
  EXPECT_EQ(Reason(status), "INVALID_FIELDS");
  EXPECT_THAT(
      FieldViolations(status),
      testing::UnorderedElementsAre(Field(&FieldViolation::field, "model.hidden_size"),
                                    Field(&FieldViolation::field, "model.num_hidden_layers")));
}

TEST(CheckCaseTest, TextThatIsNoJsonIsTheOnlyMistake) {
  for (const char* text : {"{oops", "[]", ""}) {
    EXPECT_THAT(FieldViolations(StatusOf(text)),
                ElementsAre(Field(&FieldViolation::field, "case")));
  }
}

TEST_F(InputFilesTest, HistoryLineThatIsNoJsonIsOneMistake) {
  const auto parsed = ReadHistoryFile(Write("h.jsonl", "{oops\n"));
  EXPECT_THAT(FieldViolations(HistoryFromWire(parsed.message, Known(), parsed.violations).status()),
              ElementsAre(Field(&FieldViolation::field, "history[0]")));
}

TEST(ParseCaseTest, KnowsWhatIsNoObject) {
  EXPECT_TRUE(ParseCase("{}").is_json_object);
  EXPECT_FALSE(ParseCase("[]").is_json_object);
  EXPECT_FALSE(ParseCase("{\"id\": ").is_json_object);
  EXPECT_FALSE(ParseCase("hello \"model_type\"").is_json_object);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
