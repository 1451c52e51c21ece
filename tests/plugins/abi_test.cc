#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search_space/spec/plan.h"
#include "server/plugins/model_registry.h"
#include "server/plugins/running_model.h"
#include "server/plugins/wire/calibration.h"
#include "server/tuner/question/plan_model.h"
#include "tests/plugins/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::SizeIs;

// The host of today serves every function of a library that a vendor built against 1.0.
TEST(AbiTest, ALibraryOfOneZeroIsServed) {
  const auto model = std::make_shared<RunningModel>(OldLibrary(), QuickPolicy(), ModelEvent());
  const auto opened = MakePlanModel(model, SmallProblem());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::vector<ParallelPlan> plans = SmallPlans(2'000);
  const auto figures = (*opened)->Estimate(plans, {.with_breakdown = true});
  ASSERT_TRUE(figures.ok()) << figures.status();
  const auto bounds = (*opened)->LowerBounds(plans, {});
  ASSERT_TRUE(bounds.ok()) << bounds.status();
  ASSERT_THAT(*bounds, SizeIs(plans.size()));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    ASSERT_EQ((*figures)[i].verdict, PlanVerdict::kOk) << (*figures)[i].reason;
    // Without tensor parallelism it takes 9/8 of the time at half of the peak, and the bound is
    // half.
    EXPECT_DOUBLE_EQ((*figures)[i].step_time / (*bounds)[i],
                     2 * (1 + 0.125 * plans[i].tensor_parallel));
  }
  EXPECT_THAT(*(*opened)->Explain(plans.front(), {}), ElementsAre("first", "second"));
}

TEST(AbiTest, ALibraryOfOneZeroIsCalibrated) {
  const auto model = std::make_shared<RunningModel>(OldLibrary(), QuickPolicy(), ModelEvent());
  const auto tests = model->ListCalibrationTests("nvidia-a100-sxm4-80gb", {});
  ASSERT_TRUE(tests.ok()) << tests.status();
  ASSERT_THAT(*tests, SizeIs(1));
  EXPECT_EQ(tests->front().what, "share of the peak");
  const TestMeasurement measured = {.name = tests->front().name, .value = 0.25};
  const auto fitted = model->FitCalibration("nvidia-a100-sxm4-80gb", std::span(&measured, 1), {});
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_THAT(fitted->parameters.bytes, SizeIs(sizeof(double)));
  const std::vector<ParallelPlan> plans = SmallPlans(1);
  const auto plain = MakePlanModel(model, SmallProblem());
  const auto calibrated = MakePlanModel(model, SmallProblem(), fitted->parameters);
  ASSERT_TRUE(calibrated.ok()) << calibrated.status();
  EXPECT_DOUBLE_EQ((*calibrated)->Estimate(plans, {})->front().step_time /
                       (*plain)->Estimate(plans, {})->front().step_time,
                   2);  // at a quarter of the peak, not half
  const TestMeasurement wrong = {.name = tests->front().name, .value = 2};
  EXPECT_TRUE(absl::IsInvalidArgument(
      model->FitCalibration("nvidia-a100-sxm4-80gb", std::span(&wrong, 1), {}).status()));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
