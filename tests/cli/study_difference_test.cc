#include "cli/reports/study_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// A line with an id, an outcome, a model, a cluster and a time has more than 80 columns.
TEST(StudyDifferenceReportTest, StudiesFitTheTerminal) {
  v1::StudyDifference difference;
  v1::Study& first = *difference.mutable_first();
  first.set_id("study-8e3e90efffa9");
  first.set_outcome("baseline_best");
  first.set_model_name("llama2-70b");
  first.set_cluster_name("a100x128");
  first.set_device_count(128);
  first.set_create_time("2026-11-27T16:55:03.670Z");
  EXPECT_THAT(
      StudyDifferenceReport(difference, 80),
      testing::StartsWith(
          "first   study-8e3e90efffa9: baseline_best, llama2-70b on a100x128, 128 devices,\n"
          "        created 2026-11-27T16:55:03.670Z\nsecond  "));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
