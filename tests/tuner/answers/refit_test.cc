#include "server/tuner/answers/refit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "estimator/frameworks/profile_facts.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/workload.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

// Returns the measurements of a run of the tiny model if the profile's constants are `facts`.
HistoryRow RunWith(std::vector<FrameworkFactRequest> facts) {
  HistoryRow run = {.question = TinyQuestion(), .plan = {.data_parallel = 4}};
  EvaluateRequest request = {.question = run.question, .plan = run.plan};
  request.question.workload.framework_facts = std::move(facts);
  const Estimate estimate = EvaluatePlan(request, Known(), {}).value();
  run.step_time = estimate.step_time;
  run.peak_memory = estimate.peak_memory;
  return run;
}

// A run made with known constants gives them back, each from its own figure.
TEST(RefitTest, FindsWhatTheRunWasMadeWith) {
  const HistoryRow run = RunWith({{.name = "host_per_launch_seconds", .value = "7.5e-5"},
                                  {.name = "fixed_buffers_bytes", .value = "3e9"}});
  const auto refit =
      RefitFramework(run, {"host_per_launch_seconds", "fixed_buffers_bytes"}, Known());
  ASSERT_TRUE(refit.ok()) << refit.status();
  ASSERT_EQ(refit->facts.size(), 2u);
  EXPECT_EQ(refit->facts[0].name, "host_per_launch_seconds");
  EXPECT_NEAR(std::stod(refit->facts[0].value), 7.5e-5, 1e-9);
  EXPECT_NEAR(std::stod(refit->facts[1].value), 3e9, 3e4);
  EXPECT_NE(refit->before.step_time, *run.step_time);
  EXPECT_NEAR(refit->after.step_time / *run.step_time, 1, 1e-5);
  EXPECT_NEAR(refit->after.peak_memory / *run.peak_memory, 1, 1e-5);
}

// Facts that the run's workload states are kept, except for the refitted one.
TEST(RefitTest, KeepsTheWorkloadsFacts) {
  HistoryRow run = RunWith({{.name = "fixed_per_step_seconds", .value = "2"}});
  run.question.workload.framework_facts = {{.name = "fixed_per_step_seconds", .value = "1"},
                                           {.name = "rotary_is_fused", .value = "true"}};
  const auto refit = RefitFramework(run, {"fixed_per_step_seconds"}, Known());
  ASSERT_TRUE(refit.ok()) << refit.status();
  ASSERT_EQ(refit->facts.size(), 2u);
  EXPECT_EQ(refit->facts[0].name, "rotary_is_fused");
  EXPECT_NEAR(std::stod(refit->facts[1].value), 2, 1e-3);
}

// A refitted run in the history changes nothing: it is compared with its own constants.
TEST(RefitTest, ItsRunInTheHistoryCountsOnce) {
  HistoryRow run = RunWith({});
  run.step_time = *run.step_time * 3;
  run.peak_memory = Scale(*run.peak_memory, 2);
  const auto refit =
      RefitFramework(run, {"fixed_per_step_seconds", "fixed_buffers_bytes"}, Known());
  ASSERT_TRUE(refit.ok()) << refit.status();
  EvaluateRequest request = {.question = run.question, .plan = run.plan};
  request.question.workload.framework_facts = refit->facts;
  const Estimate estimate = EvaluatePlan(request, Known(), {run}).value();
  EXPECT_NEAR(estimate.step_time / *run.step_time, 1, 1e-4);
  EXPECT_NEAR(estimate.peak_memory / *run.peak_memory, 1, 1e-4);
}

// Every constant that is offered is a fact with limits.
TEST(RefitTest, ConstantsAreFacts) {
  const HistoryRow run = RunWith({});
  const auto refused = RefitFramework(run, {"nothing"}, Known());
  const std::string description = FieldViolations(refused.status()).front().description;
  std::string names = description.substr(description.find("one of ") + 7);
  std::erase(names, ',');
  std::istringstream words(names);
  int count = 0;
  for (std::string name; words >> name; ++count) {
    EXPECT_TRUE(RangeOf(name).has_value()) << name;
  }
  EXPECT_GE(count, 18);
}

struct Case {
  const char* name;
  std::vector<std::string> facts;
  void (*change)(HistoryRow& run);
  const char* expected;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"NoConstant", {"rotary_is_fused"}, [](HistoryRow&) {}, "must be one of host_per_launch"},
    {"TwoOfOneFigure",
     {"host_per_launch_seconds", "fixed_per_step_seconds"},
     [](HistoryRow&) {},
     "fixed_per_step_seconds; one run has only one step_time_seconds, and host_per_launch_seconds "
     "is "
     "fitted to it already"},
    {"NotMeasured",
     {"fixed_buffers_bytes"},
     [](HistoryRow& run) { run.peak_memory.reset(); },
     "needs the run's peak_memory_bytes"},
    {"NoValueGivesIt",
     {"host_per_launch_seconds"},
     [](HistoryRow& run) { run.step_time = Seconds(1e-6); },
     "measured 1e-06"},
    {"WithoutEffect",
     {"host_per_recomputed_layer_seconds"},
     [](HistoryRow&) {},
     "has no effect on this run"},
    {"Failed",
     {"host_per_launch_seconds"},
     [](HistoryRow& run) { run.outcome = Outcome::kOom; },
     "must be ok"},
};

class RefitMistakeTest : public testing::TestWithParam<Case> {};

TEST_P(RefitMistakeTest, IsNamed) {
  HistoryRow run = RunWith({});
  GetParam().change(run);
  const auto refit = RefitFramework(run, GetParam().facts, Known());
  ASSERT_FALSE(refit.ok());
  const std::vector<FieldViolation> violations = FieldViolations(refit.status());
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_THAT(violations[0].description, HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(All, RefitMistakeTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
