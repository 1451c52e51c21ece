#include "server/launchers/jobs/attempt_end.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search_space/spec/choices.h"
#include "server/launchers/jobs/job_engine.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using enum FailureClass;

TEST(AttemptEndTest, EveryClassHasAWordAndAPolicy) {
  for (const auto& choice : Choices<FailureClass>()) {
    EXPECT_EQ(PolicyOf(choice.value).failure, choice.value) << choice.word;
    EXPECT_NE(PolicyOf(choice.value).outcome, Outcome::kOk) << choice.word;
  }
}

// Only failures that are the plan's own fault may teach anything about the plan.
TEST(AttemptEndTest, WhatIsNotThePlansFaultProvesNothing) {
  for (const FailureClass failure : {kNodeFailure, kPreempted, kLaunchError, kMetricsMissing,
                                     kCancelled, kLost, kQueueTimeout, kRefused}) {
    EXPECT_EQ(PolicyOf(failure).outcome, Outcome::kCancelled) << Word(failure);
  }
  for (const auto& choice : Choices<FailureClass>()) {
    const bool is_oom = PolicyOf(choice.value).outcome == Outcome::kOom;
    EXPECT_EQ(is_oom, choice.value == kOomDevice) << choice.word;
  }
}

struct EndCase {
  std::string name;
  JobEnd end;
  FailureClass expected;
};

void PrintTo(const EndCase& c, std::ostream* out) { *out << c.name; }

const EndCase kEnds[] = {
    {"ExitedWell", {.exit_code = 0}, kMetricsMissing},
    {"Failed", {.exit_code = 1}, kCrash},
    {"Segfault", {.exit_code = 139}, kCrash},
    {"NoProgram", {.exit_code = 127}, kLaunchError},
    {"NotExecutable", {.exit_code = 126}, kLaunchError},
    {"WrongUseOfTheHarness", {.exit_code = 2}, kLaunchError},
    {"FolderNotWritable", {.exit_code = 49}, kLaunchError},
    {"HarnessSawMemory", {.exit_code = 40}, kOomDevice},
    {"HarnessSawAHang", {.exit_code = 44}, kHang},
    {"StepSawMemory", {.exit_code = 86}, kOomDevice},
    {"EndedBySomebody", {.exit_code = 143}, kCancelled},
    {"KilledBySomebody", {.exit_code = 137}, kLost},
    {"CodeNotTold", {}, kLost},
    {"HostMemory", {.kind = JobEndKind::kOutOfMemory}, kOomHost},
    {"TimeLimit", {.kind = JobEndKind::kTimeLimit}, kTimeout},
    {"NodeFailure", {.kind = JobEndKind::kNodeFailure}, kNodeFailure},
    {"Preempted", {.kind = JobEndKind::kPreempted}, kPreempted},
    {"Cancelled", {.kind = JobEndKind::kCancelled}, kCancelled},
    {"Refused", {.kind = JobEndKind::kRefused}, kRefused},
};

class FailureOfTest : public testing::TestWithParam<EndCase> {};

TEST_P(FailureOfTest, IsOfClass) { EXPECT_EQ(FailureOf(GetParam().end), GetParam().expected); }

INSTANTIATE_TEST_SUITE_P(All, FailureOfTest, testing::ValuesIn(kEnds),
                         [](const auto& each) { return each.param.name; });

struct RetryCase {
  std::string name;
  std::vector<FailureClass> failures;
  bool expected;
};

void PrintTo(const RetryCase& c, std::ostream* out) { *out << c.name; }

const RetryCase kRetries[] = {
    {"NoneFailed", {}, false},
    {"MemoryOfDevice", {kOomDevice}, false},
    {"MemoryOfHost", {kOomHost}, true},
    {"MemoryOfHostAgain", {kOomHost, kOomHost}, false},
    {"Hang", {kHang}, true},
    {"HangAgain", {kHang, kHang}, false},
    {"HangAfterNodeFailure", {kNodeFailure, kHang}, true},
    {"NodeFailures", {kNodeFailure, kNodeFailure, kNodeFailure}, true},
    {"TooManyNodeFailures", {kNodeFailure, kNodeFailure, kNodeFailure, kNodeFailure}, false},
    {"PreemptedOften", std::vector(10, kPreempted), true},
    {"PreemptedForEver", std::vector(11, kPreempted), false},
    {"CrashAfterPreemption", {kPreempted, kCrash}, false},
    {"Timeout", {kTimeout}, false},
    {"Cancelled", {kCancelled}, false},
};

class IsRetriedTest : public testing::TestWithParam<RetryCase> {};

TEST_P(IsRetriedTest, ByItsClass) {
  EXPECT_EQ(IsRetried(GetParam().failures), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(All, IsRetriedTest, testing::ValuesIn(kRetries),
                         [](const auto& each) { return each.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
