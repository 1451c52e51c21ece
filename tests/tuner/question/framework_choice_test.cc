#include "server/tuner/question/framework_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::HasSubstr;

// The rules and measurements of a version are those of the version that is stated, by the name that
// its profile has for it.
TEST(FrameworkChoiceTest, VersionIsTheStatedOne) {
  const auto version = [](const std::string& stated) {
    Question question = TinyQuestion();
    question.workload.framework_name = "megatron-core";
    question.workload.framework_version = stated;
    return Resolved(question).workload.framework_version;
  };
  EXPECT_EQ(version(""), "0.14");
  EXPECT_EQ(version("0.14"), "0.14");
  EXPECT_EQ(version("0.12"), "0.12");
  EXPECT_EQ(version("0.12.1"), "0.12");
  EXPECT_EQ(version("0.9"), "0.9");
}

// Megatron-Core has windows in some layers from 0.15 on; a version that is stated stays.
TEST(FrameworkChoiceTest, VersionIsOneThatBuildsTheModel) {
  Question question = TinyQuestion();
  question.workload.framework_name = "megatron-core";
  question.model.layers = {{.count = 1, .kind = {.sliding_window = 128}}, {.count = 1, .kind = {}}};
  const Problem problem = Resolved(question);
  EXPECT_EQ(problem.workload.framework_version, "0.15");
  const auto version = testing::Field(&AppliedDefault::field, "workload.framework.version");
  const auto source =
      testing::Field(&AppliedDefault::source, HasSubstr("Enable SWA mixing with attention"));
  EXPECT_THAT(problem.applied_defaults, Contains(testing::AllOf(version, source)));
  question.workload.framework_version = "0.14";
  EXPECT_EQ(Resolved(question).workload.framework_version, "0.14");
  question.workload.framework_version = "";
  question.model.layers = {{.count = 1, .kind = {.sliding_window = 128}}};  // in all layers
  EXPECT_EQ(Resolved(question).workload.framework_version, "0.14");
}

// DeepEP reaches eight devices over NVLink.
TEST(MoeTrainingTest, DispatcherSuitsTheNode) {
  const auto dispatcher = [](const std::string& framework, const std::string& chip) {
    Question question = TinyQuestion();
    question.model = TinyExperts();
    question.model.biases = LinearBiases::kNone;  // those of experts came with 0.15, too
    question.workload.framework_name = framework;
    question.cluster.pools.front().chip = chip;
    return Resolved(question).workload.moe.dispatcher;
  };
  EXPECT_EQ(dispatcher("megatron-core", "nvidia-h100-sxm5-80gb"), MoeDispatcher::kDeepep);
  // HybridEP came with 0.15; the profile is of 0.14.
  EXPECT_EQ(dispatcher("megatron-core", "nvidia-gb200-nvl72"), MoeDispatcher::kAlltoall);
  EXPECT_EQ(dispatcher("megatron-core", "amd-instinct-mi300x"), MoeDispatcher::kAlltoall);
  EXPECT_EQ(dispatcher("torchtitan", "nvidia-h100-sxm5-80gb"), MoeDispatcher::kAlltoall);
}

// Dense models have nothing to dispatch.
TEST(MoeTrainingTest, DispatcherIsADefaultOfExpertsOnly) {
  Question question = TinyQuestion();
  question.workload.framework_name = "megatron-core";
  const auto dispatcher = testing::Field(&AppliedDefault::field, "workload.moe.dispatcher");
  EXPECT_THAT(Resolved(question).applied_defaults, testing::Not(Contains(dispatcher)));
  question.model = TinyExperts();
  EXPECT_THAT(Resolved(question).applied_defaults, Contains(dispatcher));
  question.workload.moe.dispatcher = MoeDispatcher::kAllgather;
  EXPECT_THAT(Resolved(question).applied_defaults, testing::Not(Contains(dispatcher)));
  question.workload.moe.capacity_factor = 0.01;
  EXPECT_THAT(std::string(ResolveProblem(question, Known()).status().message()),
              HasSubstr("workload.moe.capacity_factor = 0.01; must be 0, or from 0.1 to 1000"));
}

TEST(FrameworkChoiceTest, AnUnknownFrameworkIsAMistake) {
  Question question = TinyQuestion();
  question.workload.framework_name = "megatron";
  const std::vector<FieldViolation> found = CheckQuestion(question, Known());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().field, "workload.framework.name");
  EXPECT_THAT(found.front().description,
              testing::StartsWith("\"megatron\"; must be one of megatron-core, "));
}

TEST(FrameworkChoiceTest, AFrameworkThatRunsAnotherNamesTheWayThere) {
  Question question = TinyQuestion();
  for (const std::string& name : std::vector<std::string>{"nemo", "megatron-bridge"}) {
    question.workload.framework_name = name;
    const std::vector<FieldViolation> found = CheckQuestion(question, Known());
    ASSERT_EQ(found.size(), 1U);
    std::string want = "\"";
    want.append(name).append("\"; ").append(name);
    want.append(
        " runs megatron-core: use --framework megatron-core, then meshwright export --framework ");
    want.append(name);
    EXPECT_EQ(found.front().description, want);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
