#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "meshwright/v1/service.pb.h"
#include "recorder/records.h"
#include "search_space/base/units.h"
#include "server/convert/convert.h"
#include "server/tuner/question/study_control.h"
#include "tests/convert/full_samples.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(StudyTest, ShowsTimesInUtc) {
  const StudyRecord record = {
      .id = "s",
      .state = StudyState::kSucceeded,
      .outcome = "improved",
      .model_name = "m",
      .cluster_name = "c",
      .chip = "x",
      .other_chips = {"y", "z"},
      .device_count = 8,
      .error_message = "e",
      .owner = "node7.site 12:3456",
      // 2024-02-29 is day 19782 of Unix time: 54 x 365 + 13 leap days in
      // 1970..2023, + 31 + 28. 19782 x 86400 s + 23:59:58 = 86398 s.
      .create_time_ms = (19782LL * 86400 + 86398) * 1000 + 7,
      .end_time_ms = (19782LL * 86400 + 86400) * 1000,
      .search_time = Seconds(0.5),
      .best_step_time = Seconds(2),
      .gain_over_baseline = 0.25,
      .best_plan_digest = "d",
      .creator = "ci",
      .revision = 3,
      .remarks = {
          .display_name = "first try", .note = "n", .labels = {{"team", "llm"}}, .edit_count = 2}};
  const v1::Study wire = ToWire(record);
  EXPECT_EQ(wire.create_time(), "2024-02-29T23:59:58.007Z");
  EXPECT_EQ(wire.end_time(), "2024-03-01T00:00:00.000Z");
  EXPECT_EQ(wire.state(), "succeeded");
  EXPECT_EQ(wire.etag(), "2");
  EXPECT_EQ(wire.server(), "node7.site 12");
  StudyRecord alone = record;
  alone.owner = "12:3456";  // only one server has the store
  EXPECT_EQ(ToWire(alone).server(), "");
  EXPECT_THAT(UnsetFields(wire), testing::IsEmpty());
}

TEST(ProgressTest, EveryFieldIsSet) {
  const Progress progress = {.phase = "search",
                             .space_count = 10,
                             .considered_count = 4,
                             .evaluated_count = 3,
                             .limit_count = 8,
                             .best_step_time = Seconds(1),
                             .job_status = "trial 1: job 7 pending: Resources"};
  EXPECT_THAT(UnsetFields(ToWire(progress)), testing::IsEmpty());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
