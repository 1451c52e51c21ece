#include <gtest/gtest.h>

#include "estimator/layer/layer_cost.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// The fourth-order smooth maximum of docs/cost_model/kernels.md "Host time".
TEST(DeviceWithHost, LongerOfTheTwo) {
  EXPECT_DOUBLE_EQ(DeviceWithHost(Seconds(3), Seconds(0)).count(), 3);
  EXPECT_DOUBLE_EQ(DeviceWithHost(Seconds(0), Seconds(2)).count(), 2);
  EXPECT_DOUBLE_EQ(DeviceWithHost(Seconds(1), Seconds(1)).count(), std::pow(2, 0.25));
  // Half of the device time adds (1 + 1/16)^(1/4) - 1 = 1.53 %.
  EXPECT_NEAR(DeviceWithHost(Seconds(1), Seconds(0.5)).count(), 1.015272, 1e-6);
}

// A chip that is fast enough waits for its host: the time no longer depends on the micro-batch.
TEST(HostTime, BindsSmallWork) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.profile.host_per_launch = Seconds(1e-3);
  problem.workload.sequence_length = 512;
  const Estimate one = FullOf(problem, {.tensor_parallel = 8});
  EXPECT_GT(Line(one, TimeCause::kHost), 0.5 * one.step_time.count());
  // Twice the micro-batch, half as many of them: nearly half the step.
  const Estimate two = FullOf(problem, {.tensor_parallel = 8, .micro_batch_size = 2});
  EXPECT_NEAR(two.step_time / one.step_time, 0.5, 0.02);
  problem.profile.host_per_launch = Seconds(0);
  EXPECT_LT(Line(FullOf(problem, {.tensor_parallel = 8}), TimeCause::kHost), 1e-9);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
