// Tests the rule `bound` in a search by a vendor's model.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_registry.h"
#include "server/plugins/running_model.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/plan_model.h"
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

using testing::AllOf;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

struct Found {
  StudyResult result = {};
  std::int64_t dropped = 0;  // by the rule
  std::vector<std::string> events = {};
};

Found Tune(const ModelManifest& manifest, const std::vector<std::string>& disabled) {
  Found found;
  const TemporaryFolder folder;
  const auto registry =
      RegistryWith(folder, manifest, [&found](std::string_view event, const std::string& /*what*/) {
        found.events.emplace_back(event);
      });
  StudyControl control;
  control.open_model = [&registry](std::string_view model, const Problem& problem,
                                   const std::stop_token& cancel) {
    return registry->OpenModel(model, problem, cancel);
  };
  const auto answer = RunStudy({.question = TinyQuestion(),
                                .disabled_rules = disabled,
                                .cost_model = CostModelRequest{.name = manifest.name}},
                               Known(), control);
  EXPECT_TRUE(answer.ok()) << answer.status();
  if (!answer.ok()) return found;
  found.result = std::get<StudyResult>(*answer);
  for (const auto& [rule, count] : found.result.search.pruned_count_by_rule) {
    if (rule == "bound") found.dropped = count;
  }
  return found;
}

void ExpectSamePlans(const StudyResult& a, const StudyResult& b) {
  ASSERT_EQ(a.plans.size(), b.plans.size());
  for (std::size_t i = 0; i < a.plans.size(); ++i) {
    EXPECT_EQ(a.plans[i].plan, b.plans[i].plan) << i;
    EXPECT_EQ(a.plans[i].estimate.step_time, b.plans[i].estimate.step_time) << i;
  }
}

class BoundTest : public testing::TestWithParam<std::string> {
 protected:
  static ModelManifest Manifest() {
    if (GetParam() == "cpp") return CppTemplate();
    return GetParam() == "c" ? CTemplate() : BadModel(GetParam());
  }
};

TEST_P(BoundTest, FindsTheSamePlansWithFewerEstimates) {
  const Found with = Tune(Manifest(), {});
  const Found without = Tune(Manifest(), {"bound"});
  ExpectSamePlans(with.result, without.result);
  EXPECT_TRUE(with.result.search.complete);
  EXPECT_EQ(without.dropped, 0);
  EXPECT_EQ(with.result.search.evaluated_count + with.dropped,
            without.result.search.evaluated_count);
  if (GetParam() != "c") {  // its bound is only that of the peak
    EXPECT_GT(with.dropped, 0);
    EXPECT_THAT(with.result.warnings,
                Contains(EndsWith("plans were left out by the model's own bounds, which are not "
                                  "verified")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, BoundTest, testing::Values("cpp", "c", "bounds"),
                         [](const auto& row) { return row.param; });

class UselessBoundTest : public testing::TestWithParam<std::string> {};

// Bounds that are wrong, or on which a model fails, cost nothing but the time to ask.
TEST_P(UselessBoundTest, LeavesNothingOut) {
  const Found with = Tune(BadModel(GetParam()), {});
  ExpectSamePlans(with.result, Tune(BadModel("good"), {}).result);
  EXPECT_EQ(with.dropped, 0);
  EXPECT_TRUE(with.result.search.complete);
  const bool fails = GetParam() == "bounds_crash" || GetParam() == "bounds_wrong_shape";
  EXPECT_EQ(std::ranges::count(with.events, "no_bounds"), fails ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(All, UselessBoundTest,
                         testing::Values("bounds_nan", "bounds_infinite", "bounds_crash",
                                         "bounds_wrong_shape"),
                         [](const auto& row) { return row.param; });

// An estimate that is below its bound is seen at the first plans, before any is left out.
TEST(BrokenBoundTest, IsNotUsed) {
  const Found with = Tune(BadModel("bounds_high"), {});
  ExpectSamePlans(with.result, Tune(BadModel("bounds_high"), {"bound"}).result);
  EXPECT_EQ(with.dropped, 0);
  EXPECT_TRUE(with.result.search.complete);
  EXPECT_THAT(with.result.warnings,
              Contains(AllOf(StartsWith("cost model bad: its lower bound of "),
                             EndsWith("its bounds were not used after that"))));
}

// At first it is slow and has no bounds. Then it is twice as fast, and of each two plans one has a
// bound above its estimate and one has a bound that leaves it out.
class LateLiar final : public PlanModel {
 public:
  LateLiar() : PlanModel({.name = "liar", .version = "1"}) {}
  absl::StatusOr<std::vector<PlanFigures>> Estimate(std::span<const ParallelPlan> plans,
                                                    const BatchOptions& /*options*/) override {
    const Seconds time(calls_++ == 0 ? 1.0 : 0.5);
    return std::vector<PlanFigures>(plans.size(), {.verdict = PlanVerdict::kOk, .step_time = time});
  }
  absl::StatusOr<std::vector<Seconds>> LowerBounds(std::span<const ParallelPlan> plans,
                                                   const std::stop_token& /*cancel*/) override {
    std::vector<Seconds> bounds(plans.size(), Seconds(0));
    for (std::size_t i = 0; calls_ > 0 && i < plans.size(); ++i) {
      bounds[i] = Seconds(i % 2 == 0 ? 0.9 : 2.0);
    }
    return bounds;
  }

 private:
  int calls_ = 0;
};

TEST(BrokenBoundTest, ASearchThatLeantOnItIsNotComplete) {
  StudyControl control;
  control.open_model =
      [](std::string_view /*name*/, const Problem& /*problem*/,
         const std::stop_token& /*cancel*/) -> absl::StatusOr<std::unique_ptr<PlanModel>> {
    return std::make_unique<LateLiar>();
  };
  const auto answer =
      RunStudy({.question = TinyQuestion(), .cost_model = CostModelRequest{.name = "liar"}},
               Known(), control);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const StudyResult& result = std::get<StudyResult>(*answer);
  EXPECT_FALSE(result.search.complete);
  EXPECT_THAT(result.warnings,
              Contains(AllOf(StartsWith("cost model liar: its lower bound of 0.9 s for "),
                             HasSubstr(" is above its own estimate of 0.5 s"),
                             EndsWith("the best plan may be among them"))));
  EXPECT_THAT(result.warnings, Not(Contains(HasSubstr("ended early"))));
}

std::int64_t CountOf(const std::vector<std::string>& events, const std::string& event) {
  return std::ranges::count(events, event);
}

TEST(RefusedBoundTest, IsOneProblemsOwn) {
  const auto model =
      std::make_shared<RunningModel>(BadModel("bounds_refuse_first"), QuickPolicy(), ModelEvent());
  const auto refused = MakePlanModel(model, SmallProblem());
  const auto taken = MakePlanModel(model, SmallProblem());
  ASSERT_TRUE(refused.ok() && taken.ok());
  const std::vector<ParallelPlan> plans = SmallPlans(3);
  for (int i = 0; i < 2; ++i) {  // the second time it is not asked
    EXPECT_THAT(*(*refused)->LowerBounds(plans, {}), IsEmpty());
  }
  EXPECT_THAT(*(*taken)->LowerBounds(plans, {}), SizeIs(3));
}

// The process that takes the place of one that failed on bounds is spared; the next is asked again.
TEST(FailedBoundTest, IsForgottenWithTheProcess) {
  std::vector<std::string> events;
  const auto model = std::make_shared<RunningModel>(
      BadModel("bounds_crash"), QuickPolicy(),
      [&](std::string_view event, const std::string& /*what*/) { events.emplace_back(event); });
  const auto opened = MakePlanModel(model, SmallProblem());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::vector<ParallelPlan> plans = SmallPlans(3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(*(*opened)->LowerBounds(plans, {}), IsEmpty());
    EXPECT_TRUE((*opened)->Estimate(plans, {}).ok());
  }
  EXPECT_EQ(CountOf(events, "no_bounds"), 1);
  model->Stop();
  EXPECT_TRUE((*opened)->Estimate(plans, {}).ok());
  EXPECT_THAT(*(*opened)->LowerBounds(plans, {}), IsEmpty());
  EXPECT_EQ(CountOf(events, "no_bounds"), 2);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
