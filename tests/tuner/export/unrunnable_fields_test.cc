#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/problem.h"
#include "tests/search_space/models.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Returns the problem of a model on one node, with the framework's defaults for all else.
Problem ProblemOf(const std::string& framework, const ModelSpec& model,
                  Precision precision = Precision::kBf16) {
  Question question = TinyQuestion();
  question.model = model;
  question.workload.framework_name = framework;
  question.workload.precision = precision;
  question.cluster.pools = {Nodes(1, 8)};
  question.cluster.pools.front().chip = "nvidia-h100-sxm5-80gb";
  return Resolved(question);
}

std::vector<std::string> FieldsOf(const Problem& problem) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : UnrunnableFields(problem)) {
    fields.push_back(violation.field);
  }
  return fields;
}

TEST(UnrunnableFieldsTest, NamesWhatTheFrameworkLacks) {
  EXPECT_THAT(FieldsOf(ProblemOf("torchtitan", TinyModel())),
              ElementsAre("model.mlp", "model.norm"));
  EXPECT_THAT(FieldsOf(ProblemOf("nanotron", Mixtral_8x7b())), ElementsAre("model.moe"));
  EXPECT_THAT(FieldsOf(ProblemOf("megatron-deepspeed", Llama2_70b())),
              ElementsAre("model.kv_head_count", "model.norm", "model.tied_embeddings"));
  EXPECT_THAT(FieldsOf(ProblemOf("nanotron", Llama2_7b(), Precision::kFp8)),
              ElementsAre("workload.precision"));
}

TEST(UnrunnableFieldsTest, SaysWhatTheModelsOfMegatronDeepSpeedHave) {
  std::vector<std::string> descriptions;
  for (const auto& violation : UnrunnableFields(ProblemOf("megatron-deepspeed", Llama2_7b()))) {
    descriptions.push_back(violation.field + " = " + violation.description);
  }
  EXPECT_THAT(descriptions,
              ElementsAre("model.norm = rmsnorm; must be layernorm, the only norm of "
                          "Megatron-DeepSpeed of 2022 (bigscience-workshop/Megatron-DeepSpeed)",
                          "model.tied_embeddings = false; must be true, because the output layer "
                          "of Megatron-DeepSpeed of 2022 (bigscience-workshop/Megatron-DeepSpeed) "
                          "is the embedding"));
}

TEST(UnrunnableFieldsTest, NamesChipsOfOtherVendors) {
  Question question = TinyQuestion();
  question.model = Llama2_7b();
  question.workload.framework_name = "mindspeed";
  EXPECT_THAT(FieldsOf(Resolved(question)), ElementsAre("cluster.pools[0].chip"));
  question.cluster.pools.front().chip = "huawei-ascend-910b-313t";
  EXPECT_THAT(FieldsOf(Resolved(question)), IsEmpty());
}

struct ChipCase {
  std::string framework;
  std::string chip;
  bool is_refused = true;
};

// The frameworks' own checks say so (estimator/legality/chip_rules.cc). Ports of vendors that keep
// the framework's name are not refused.
TEST(UnrunnableFieldsTest, NamesChipsThatTheFrameworkDoesNotRunOn) {
  const ChipCase cases[] = {{"megatron-core", "google-tpu-v5p"},
                            {"megatron-lm", "google-tpu-v5p"},
                            {"flagscale", "google-tpu-v5p"},
                            {"deepspeed", "google-tpu-v5p"},
                            {"torchtitan", "google-tpu-v5p"},
                            {"nanotron", "google-tpu-v5p"},
                            {"megatron-core", "aws-trainium2"},
                            {"deepspeed", "aws-trainium2"},
                            {"megatron-core", "huawei-ascend-910b-313t"},
                            {"maxtext", "huawei-ascend-910b-313t"},
                            {"nanotron", "huawei-ascend-910b-313t"},
                            {"deepspeed", "huawei-ascend-910b-313t", false},
                            {"torchtitan", "huawei-ascend-910b-313t", false},
                            {"megatron-core", "amd-instinct-mi300x", false},
                            {"maxtext", "google-tpu-v5p", false},
                            {"maxtext", "nvidia-h100-sxm5-80gb", false}};
  for (const ChipCase& c : cases) {
    Question question = TinyQuestion();
    question.model = Llama2_7b();
    question.workload.framework_name = c.framework;
    question.cluster.pools = {Nodes(1, 8)};
    question.cluster.pools.front().chip = c.chip;
    const std::vector<std::string> fields = FieldsOf(Resolved(question));
    EXPECT_EQ(std::ranges::count(fields, "cluster.pools[0].chip"), c.is_refused ? 1 : 0)
        << c.framework << " " << c.chip;
  }
}

Question OnV100(const std::string& framework) {
  Question question = TinyQuestion();
  question.model = Llama2_7b();
  question.workload.framework_name = framework;
  question.workload.precision = Precision::kFp16;
  question.cluster.pools = {Nodes(1, 8)};
  question.cluster.pools.front().chip = "nvidia-v100-sxm2-32gb";
  return question;
}

// flash-attn 2 and the fused attention of TransformerEngine need compute capability 8.0.
TEST(UnrunnableFieldsTest, NamesKernelsThatTheChipDoesNotRun) {
  for (const AttentionKernel kernel :
       {AttentionKernel::kFlash2, AttentionKernel::kFlash3, AttentionKernel::kCudnn}) {
    Question question = OnV100("megatron-core");
    question.workload.attention_kernel = kernel;
    EXPECT_THAT(FieldsOf(Resolved(question)), ElementsAre("workload.attention_kernel"));
    question.cluster.pools.front().chip = "nvidia-a100-sxm4-80gb";
    EXPECT_THAT(FieldsOf(Resolved(question)), IsEmpty());
  }
  // nanotron has no other kernel.
  EXPECT_THAT(FieldsOf(Resolved(OnV100("nanotron"))), ElementsAre("workload.attention_kernel"));
}

TEST(UnrunnableFieldsTest, TakesAKernelThatTheChipRuns) {
  const std::pair<const char*, AttentionKernel> cases[] = {
      {"megatron-core", AttentionKernel::kUnfused},
      {"flagscale", AttentionKernel::kUnfused},
      {"megatron-lm", AttentionKernel::kFusedSoftmax},
      {"pytorch-fsdp", AttentionKernel::kUnfused},
      {"deepspeed", AttentionKernel::kUnfused}};
  for (const auto& [framework, kernel] : cases) {
    const Problem problem = Resolved(OnV100(framework));
    EXPECT_EQ(problem.workload.attention_kernel, kernel) << framework;
    EXPECT_THAT(FieldsOf(problem), IsEmpty()) << framework;
  }
  const Problem problem = Resolved(OnV100("megatron-core"));
  const auto plan = ExportPlan("megatron-core", problem, {.data_parallel = 8, .zero_stage = 1});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->text, HasSubstr("--attention-backend unfused"));
}

TEST(UnrunnableFieldsTest, NothingWithoutAnExporter) {
  EXPECT_THAT(FieldsOf(ProblemOf("generic", TinyModel())), IsEmpty());
}

// A user who states a framework, a model and a precision is told what of these cannot run, and
// never of a default.
TEST(UnrunnableFieldsTest, DefaultsCanRun) {
  for (const std::string& framework : ExportFrameworks()) {
    if (framework == "megatron-bridge" || framework == "nemo") continue;  // no workload names them
    for (const Precision precision :
         {Precision::kBf16, Precision::kFp16, Precision::kFp8, Precision::kFp32}) {
      for (const ModelSpec& model : {Llama2_7b(), Mixtral_8x7b(), DeepseekV3(), TinyModel()}) {
        for (const std::string& field : FieldsOf(ProblemOf(framework, model, precision))) {
          const bool is_stated = field.starts_with("model") || field.ends_with(".chip") ||
                                 field == "workload.precision";
          EXPECT_TRUE(is_stated) << fmt::format("{} {} {}: {}", framework, Word(precision),
                                                model.name, field);
        }
      }
    }
  }
}

// Sinks and soft caps are not in every kernel: one that nobody stated is replaced, and a stated one
// is refused with the source.
TEST(UnrunnableFieldsTest, KernelsThatDoNotComputeTheAttention) {
  ModelSpec sinks = Llama2_7b();
  sinks.attention_sinks = true;
  Problem problem = ProblemOf("pytorch-fsdp", sinks);
  EXPECT_EQ(problem.workload.attention_kernel, AttentionKernel::kUnfused);
  EXPECT_THAT(FieldsOf(problem), IsEmpty());
  problem.workload.attention_kernel = AttentionKernel::kFlash2;
  const std::vector<FieldViolation> found = UnrunnableFields(problem);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().field, "workload.attention_kernel");
  EXPECT_THAT(found.front().description,
              HasSubstr("flash2; pytorch-fsdp computes sinks of attention with unfused and flash3 "
                        "only (transformers/models/gpt_oss"));
  ModelSpec capped = Llama2_7b();
  capped.attention_soft_cap = 50;
  EXPECT_EQ(ProblemOf("pytorch-fsdp", capped).workload.attention_kernel, AttentionKernel::kFlash2);
  Problem other = ProblemOf("pytorch-fsdp", capped);
  other.workload.attention_kernel = AttentionKernel::kCudnn;
  EXPECT_THAT(FieldsOf(other), ElementsAre("workload.attention_kernel"));
}

// pretrain_gpt.py does not build Gemma 2 and 3, and recipes of Megatron-Bridge do; OLMo 2 has none
// that is known.
TEST(UnrunnableFieldsTest, ModelsWithARecipeAreRun) {
  ModelSpec gemma = Llama2_7b();
  gemma.mlp = MlpKind::kGeglu;
  gemma.tied_embeddings = gemma.post_norms = true;
  gemma.attention_soft_cap = 50;
  gemma.output_soft_cap = 30;
  gemma.layers = {{.count = 1, .kind = {.sliding_window = 128}}, {.count = 1}};
  const Problem problem = ProblemOf("megatron-core", gemma);
  EXPECT_EQ(problem.workload.attention_kernel, AttentionKernel::kUnfused);
  EXPECT_THAT(FieldsOf(problem), IsEmpty());
  RankedPlan ranked = {.plan = {.data_parallel = 8, .zero_stage = 1}};
  std::vector<std::string> warnings;
  AddExport(problem, ranked, warnings);
  ASSERT_EQ(ranked.exports.size(), 1U);
  EXPECT_EQ(ranked.exports.begin()->first, "megatron-bridge");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings.front(),
              HasSubstr("no megatron-core flags, because its own program does not "
                        "build this model; a recipe of megatron-bridge does"));
  gemma.pre_norms = false;
  EXPECT_THAT(FieldsOf(ProblemOf("megatron-core", gemma)), testing::Contains("model.pre_norms"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
