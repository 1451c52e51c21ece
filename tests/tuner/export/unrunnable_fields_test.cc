#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
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
                          "Megatron-DeepSpeed",
                          "model.tied_embeddings = false; must be true, because the output layer "
                          "of Megatron-DeepSpeed is the embedding"));
}

TEST(UnrunnableFieldsTest, NamesChipsOfOtherVendors) {
  Question question = TinyQuestion();
  question.model = Llama2_7b();
  question.workload.framework_name = "mindspeed";
  EXPECT_THAT(FieldsOf(Resolved(question)), ElementsAre("cluster.pools[0].chip"));
  question.cluster.pools.front().chip = "huawei-ascend-910b-313t";
  EXPECT_THAT(FieldsOf(Resolved(question)), IsEmpty());
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

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
