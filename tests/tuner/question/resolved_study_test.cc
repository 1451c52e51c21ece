#include "server/tuner/question/resolved_study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/question_resolver.h"
#include "tests/tuner/fields.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

// TinyQuestion has four devices.
StudyRequest Asked() {
  StudyRequest request = {.question = TinyQuestion(), .baseline = PlanRequest()};
  request.trials = TrialRequest{.launcher = std::string(kReplayLauncher)};
  for (const int tensor : {1, 2, 4}) {
    request.trials->replay.push_back({.plan = {.tensor_parallel = tensor}});
  }
  return request;
}

TEST(ResolveStudyTest, ResolvesEveryPlan) {
  const auto study = ResolveStudy(Asked(), Known());
  ASSERT_TRUE(study.ok()) << study.status();
  ASSERT_TRUE(study->baseline.has_value());
  EXPECT_EQ(study->baseline->plan.data_parallel, 4);
  EXPECT_THAT(study->baseline->applied_defaults, testing::Not(IsEmpty()));
  std::vector<int> data_parallel;
  for (const ParallelPlan& plan : study->replay) data_parallel.push_back(plan.data_parallel);
  EXPECT_THAT(data_parallel, ElementsAre(4, 2, 1));
  EXPECT_EQ(study->request.trials->replay.size(), 3u);
}

TEST(ResolveStudyTest, HasNoBaselineUnlessOneIsStated) {
  const auto study = ResolveStudy({.question = TinyQuestion()}, Known());
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(study->baseline, std::nullopt);
  EXPECT_THAT(study->replay, IsEmpty());
}

TEST(ResolveStudyTest, NamesTheMistakesOfAllPlans) {
  StudyRequest request = Asked();
  request.baseline->tensor_parallel = 3;
  request.trials->replay[1].plan.tensor_parallel = 3;
  EXPECT_THAT(
      Fields(ResolveStudy(request, Known()).status()),
      testing::AllOf(testing::Contains(testing::StartsWith("baseline.")),
                     testing::Contains(testing::StartsWith("trials.replay[1].plan.")),
                     testing::Not(testing::Contains(testing::StartsWith("trials.replay[0]")))));
}

TEST(ResolveStudyTest, NamesAnUnknownLauncher) {
  StudyRequest request = Asked();
  request.trials->launcher = "pbs";
  EXPECT_THAT(Fields(ResolveStudy(request, Known()).status()), ElementsAre("trials.launcher"));
}

TEST(ResolveStudyTest, NamesTheMistakesOfTheQuestion) {
  StudyRequest request = Asked();
  request.question.model.layer_count = 0;
  request.question.cluster.pools[0].chip = "nvidia-a1000";
  EXPECT_THAT(Fields(ResolveStudy(request, Known()).status()),
              testing::UnorderedElementsAre("model.layer_count", "cluster.pools[0].chip"));
}

TEST(ResolveStudyTest, RefusesSeveralPoolsOnlyForMoreThanASearch) {
  StudyRequest request = {.question = TinyQuestion()};
  request.question.cluster.pools.push_back(request.question.cluster.pools.front());
  request.question.cluster.pools.back().name = "b";
  EXPECT_TRUE(ResolveStudy(request, Known()).ok());
  request.strategy = "random";
  EXPECT_EQ(Reason(ResolveStudy(request, Known()).status()), "MIXED_CLUSTER_SEARCH");
}

TEST(ResolveCaseTest, CasesOfOneQuestionShareItsProblem) {
  QuestionResolver resolver(Known());
  const auto first = ResolveCase({TinyQuestion(), {.tensor_parallel = 2}}, resolver);
  const auto second = ResolveCase({TinyQuestion(), {.tensor_parallel = 4}}, resolver);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->problem, second->problem);
  EXPECT_EQ(first->plan.plan.data_parallel, 2);
  EXPECT_EQ(second->plan.plan.data_parallel, 1);
}

// As a search for such a plan does.
TEST(ResolveCaseTest, RefusesChipsThatTheFrameworkDoesNotRunOn) {
  QuestionResolver resolver(Known());
  Question question = TinyQuestion();
  question.workload.framework_name = "mindspeed";
  const auto of_nvidia = ResolveCase({question, {.tensor_parallel = 2}}, resolver);
  EXPECT_THAT(Fields(of_nvidia.status()), ElementsAre("cluster.pools[0].chip"));
  question.workload.framework_name = "megatron-core";
  question.workload.precision = Precision::kFp16;
  question.cluster.pools.front().chip = "nvidia-v100-sxm2-32gb";
  EXPECT_TRUE(ResolveCase({question, {.tensor_parallel = 2}}, resolver).ok());
  question.workload.attention_kernel = AttentionKernel::kFlash2;
  const auto of_flash = ResolveCase({question, {.tensor_parallel = 2}}, resolver);
  EXPECT_THAT(Fields(of_flash.status()), ElementsAre("workload.attention_kernel"));
}

TEST(ResolveCaseTest, NamesTheMistakesOfThePlan) {
  QuestionResolver resolver(Known());
  const auto resolved = ResolveCase({TinyQuestion(), {.tensor_parallel = 3}}, resolver);
  EXPECT_THAT(Fields(resolved.status()), testing::Each(testing::StartsWith("plan.")));
  EXPECT_THAT(Fields(resolved.status()), testing::Not(IsEmpty()));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
