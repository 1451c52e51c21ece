#include "server/tuner/answers/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_registry.h"
#include "server/plugins/running_model.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "tests/files/temporary_folder.h"
#include "tests/plugins/models.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

StudyControl With(ModelRegistry& registry) {
  StudyControl control;
  control.open_model = [&registry](std::string_view model, const Problem& problem,
                                   const std::stop_token& cancel) {
    return registry.OpenModel(model, problem, cancel);
  };
  return control;
}

StudyRequest Asking(const std::string& name) {
  return {.question = TinyQuestion(), .cost_model = CostModelRequest{.name = name}};
}

TEST(ExplainByModelTest, TemplatesExplainTheirBestPlan) {
  for (const ModelManifest& manifest : {CppTemplate(), CTemplate()}) {
    const TemporaryFolder folder;
    const auto registry = RegistryWith(folder, manifest);
    const auto tuned = RunStudy(Asking(manifest.name), Known(), With(*registry));
    ASSERT_TRUE(tuned.ok()) << tuned.status();
    const RankedPlan& winner = std::get<StudyResult>(*tuned).plans.front();
    const auto explained = Explain(Asking(manifest.name), Known(), With(*registry));
    ASSERT_TRUE(explained.ok()) << explained.status();
    EXPECT_EQ(explained->plan.plan, winner.plan);
    EXPECT_EQ(explained->best.plan, winner.plan);
    EXPECT_EQ(explained->best.estimate.step_time, winner.estimate.step_time);
    EXPECT_EQ(explained->best.estimate.cost_model->name, manifest.name);
    EXPECT_THAT(explained->model_lines, Contains(StartsWith("matmul ")));
    EXPECT_THAT(explained->near_misses, Not(IsEmpty()));
    EXPECT_THAT(explained->sensitivities, IsEmpty());
    EXPECT_THAT(explained->warnings, Contains(HasSubstr("only the built-in model tells how")));
  }
}

// The baseline is explained by its own lines, which differ from those of the best plan.
TEST(ExplainByModelTest, TheBaselineIsExplained) {
  const TemporaryFolder folder;
  const auto registry = RegistryWith(folder, CppTemplate());
  StudyRequest request = Asking("roofline-cpp");
  const auto best = Explain(request, Known(), With(*registry));
  request.baseline = PlanRequest{.tensor_parallel = 4};
  const auto own = Explain(request, Known(), With(*registry));
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->plan.plan.tensor_parallel, 4);
  EXPECT_EQ(own->best.plan, best->best.plan);
  EXPECT_EQ(own->plan.estimate.cost_model->name, "roofline-cpp");
  EXPECT_NE(own->model_lines, best->model_lines);
}

struct Case {
  std::string mode;
  std::string warning;
};

const Case kCases[] = {{"good", "explains no plans"},
                       {"explain_crash", "the model crashed: signal 6"},
                       {"explain_hang", "the model hung"}};

class SilentModelTest : public testing::TestWithParam<Case> {};

// The times stand even if the words are missing.
TEST_P(SilentModelTest, IsSaid) {
  const ModelFolders folders;
  {
    const TemporaryFolder folder;
    const auto registry = RegistryWith(folder, BadModel(GetParam().mode));
    const auto explained = Explain(Asking("bad"), Known(), With(*registry));
    ASSERT_TRUE(explained.ok()) << explained.status();
    EXPECT_FALSE(explained->best.estimate.cost_model->is_fallback);
    EXPECT_THAT(explained->model_lines, IsEmpty());
    EXPECT_THAT(explained->warnings, Contains(HasSubstr(GetParam().warning)));
  }
  EXPECT_THAT(ProcessesLeft(folders.path()), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, SilentModelTest, testing::ValuesIn(kCases),
                         [](const auto& row) { return row.param.mode; });

TEST(ExplainByModelTest, WhatAModelSaysIsBounded) {
  const auto model =
      std::make_shared<RunningModel>(BadModel("explain_long"), QuickPolicy(), ModelEvent());
  const auto opened = MakePlanModel(model, SmallProblem());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto lines = (*opened)->Explain(SmallPlans(1).front(), {});
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_THAT(*lines, SizeIs(256));
  EXPECT_THAT(*lines, Each(StartsWith(" [2Jline ")));
  EXPECT_THAT(*lines, Each(SizeIs(400)));
}

TEST(ExplainByModelTest, AFallbackExplainsNothing) {
  const TemporaryFolder folder;
  const auto registry = RegistryWith(folder, BadModel("crash_at_start"));
  StudyRequest request = Asking("bad");
  EXPECT_EQ(Reason(Explain(request, Known(), With(*registry)).status()), "COST_MODEL_START");
  request.cost_model->allow_fallback = true;
  const auto explained = Explain(request, Known(), With(*registry));
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_TRUE(explained->plan.estimate.cost_model->is_fallback);
  EXPECT_THAT(explained->model_lines, IsEmpty());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
