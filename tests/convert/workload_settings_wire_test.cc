#include "server/convert/workload_settings_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "meshwright/v1/problem.pb.h"
#include "meshwright/v1/service.pb.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AllOf;
using testing::HasSubstr;

TEST(WorkloadSettingsTest, AreStatedInTheWorkload) {
  v1::RankedPlan plan;
  plan.set_precision("fp8");
  v1::Workload workload;
  workload.mutable_overlap()->set_gradient_reduce(true);
  ASSERT_EQ(SetSettings(plan, workload), absl::OkStatus());  // an answer of an earlier version
  EXPECT_EQ(workload.precision(), "fp8");
  for (const auto& [field, value] :
       {std::pair("gradient_dtype", "bf16"), std::pair("overlap.tensor_parallel", "false")}) {
    v1::WorkloadSetting& setting = *plan.add_settings();
    setting.set_field(field);
    setting.set_value(value);
  }
  ASSERT_EQ(SetSettings(plan, workload), absl::OkStatus());
  EXPECT_EQ(workload.gradient_dtype(), "bf16");
  EXPECT_TRUE(workload.overlap().gradient_reduce());
  EXPECT_TRUE(workload.overlap().has_tensor_parallel());
  EXPECT_FALSE(workload.overlap().tensor_parallel());
  plan.mutable_settings(0)->set_value("fp4");
  plan.mutable_settings(1)->set_field("overlap.all");
  const absl::Status status = SetSettings(plan, workload);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("settings.gradient_dtype = \"fp4\"; must be one of fp32"),
                    HasSubstr("settings.overlap.all = \"false\"; this program knows no")));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
