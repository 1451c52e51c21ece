#include "search_space/spec/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Case {
  std::string name = {};
  WorkloadRequest workload = {};
  std::vector<FieldViolation> violations = {};
};

class WorkloadLimitTest : public testing::TestWithParam<Case> {};

TEST_P(WorkloadLimitTest, NamesFieldValueAndLimit) {
  EXPECT_EQ(Validate(GetParam().workload, "workload"), GetParam().violations);
}

WorkloadRequest WithDropout(double ratio) {
  return {.sequence_length = 4096, .global_batch_size = 8, .dropout_ratio = ratio};
}

const Case kCases[] = {
    {"least", {.sequence_length = 1, .global_batch_size = 1}, {}},
    {"empty",
     {},
     {{"workload.sequence_length", "missing; required"},
      {"workload.global_batch_size", "missing; required"}}},
    {"zero",
     {.sequence_length = 0, .global_batch_size = -4},
     {{"workload.sequence_length", "0; must be >= 1"},
      {"workload.global_batch_size", "-4; must be >= 1"}}},
    {"dropout_zero", WithDropout(0.0), {}},
    {"dropout_one", WithDropout(1.0), {{"workload.dropout_ratio", "1; must be >= 0 and < 1"}}},
    {"dropout_negative",
     WithDropout(-0.1),
     {{"workload.dropout_ratio", "-0.1; must be >= 0 and < 1"}}},
    {"dropout_nan",
     WithDropout(std::numeric_limits<double>::quiet_NaN()),
     {{"workload.dropout_ratio", "nan; must be >= 0 and < 1"}}},
};

INSTANTIATE_TEST_SUITE_P(All, WorkloadLimitTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
