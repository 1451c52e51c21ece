#include "server/tuner/answers/switched.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload_settings.h"
#include "server/tuner/answers/explain.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/prepared.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kH100[] = "nvidia-h100-sxm5-80gb";
const WorkloadSetting kOverlap = {.field = "overlap.tensor_parallel", .value = "true"};

// Returns a question whose plans need tensor parallelism of 4 within the node.
StudyRequest Asked(const std::string& chip) {
  StudyRequest request = {.question = TinyQuestion()};
  request.question.workload.framework_name = "megatron-core";
  request.question.cluster.pools.front().chip = chip;
  request.dimensions = {{.name = "tensor_parallel", .values = {"4"}}};
  return request;
}

StudyResult Result(const StudyRequest& request) {
  return std::get<StudyResult>(RunStudy(request, Known(), {}).value());
}

// With the switches on, no plan of the space is slower or needs more memory, so that a search with
// them finds the best of both kinds.
TEST(SwitchedTest, OnIsNeverSlower) {
  StudyRequest request = Asked(kH100);
  request.dimensions.clear();
  const PreparedQuestion question = Prepared(request);
  SwitchedPlans plans(question, SettingsToTurnOn(question));
  ASSERT_TRUE(plans.has_switches());
  const PreparedQuestion& on = plans.question();
  AnalyticModel plain(ToEstimatorProblem(question.problem), {});
  AnalyticModel switched(ToEstimatorProblem(on.problem), {});
  const SearchSpace space = SpaceOf(question.problem);
  PlanWalk walk(space);
  int count = 0;
  int faster_count = 0;
  while (walk.Next()) {
    if (!walk.is_plan()) continue;
    if (++count % 7 != 0) continue;  // is a sample
    const Estimate off = plain.Full(walk.plan());
    const Estimate with = switched.Full(walk.plan());
    EXPECT_LE(with.step_time, off.step_time * (1 + 1e-12)) << MakePlanKey(walk.plan()).text;
    EXPECT_EQ(with.reserved_memory, off.reserved_memory);
    if (with.step_time == off.step_time) continue;
    ++faster_count;
    EXPECT_TRUE(walk.plan().sequence_parallel);  // without it, Megatron-Core overlaps nothing
  }
  EXPECT_GT(count, 100);
  EXPECT_GT(faster_count, 10);
}

// The switch is set where it pays, is said, and stands among the flags.
TEST(SwitchedTest, SetWhereItPays) {
  const StudyRequest request = Asked(kH100);
  const StudyResult result = Result(request);
  const RankedPlan& first = result.plans.front();
  EXPECT_THAT(first.settings, ElementsAre(kOverlap));
  EXPECT_THAT(result.model_optimum->settings, ElementsAre(kOverlap));
  EXPECT_EQ(result.recommendation->facts.back().code, VerdictCode::kSwitchesPay);
  EXPECT_THAT(result.recommendation->reason,
              HasSubstr("Plan 1 sets overlap.tensor_parallel true (--tp-comm-overlap), without "
                        "which it would be "));
  EXPECT_THAT(first.exports.at("megatron-core").text, HasSubstr("--tp-comm-overlap"));
  // It is the plan of a question that states it.
  StudyRequest stated = request;
  stated.question.workload.overlap.tensor_parallel = true;
  const StudyResult same = Result(stated);
  EXPECT_EQ(same.model_optimum->plan, result.model_optimum->plan);
  EXPECT_EQ(same.model_optimum->estimate.step_time, result.model_optimum->estimate.step_time);
  EXPECT_THAT(same.plans.front().settings, IsEmpty());
}

// The explanation prices every plan as the answer does: with the switch where the plan to launch
// has it, and the stated plan as it was stated.
TEST(SwitchedTest, ExplainedAsAnswered) {
  const StudyRequest request = Asked(kH100);
  const StudyResult result = Result(request);
  const Explanation launched = Explain(request, Known(), {}).value();
  EXPECT_EQ(launched.plan.estimate.step_time, result.plans.front().estimate.step_time);
  EXPECT_THAT(launched.best.settings, ElementsAre(kOverlap));
  EXPECT_LE(launched.best.estimate.step_time, launched.plan.estimate.step_time);
  for (const Sensitivity& sensitivity : launched.sensitivities) {
    EXPECT_THAT(sensitivity.same.settings, ElementsAre(kOverlap)) << sensitivity.resource;
  }
  StudyRequest own = request;
  own.baseline = StatedPlan(result.plans.front().plan);
  const Explanation stated = Explain(own, Known(), {}).value();
  EXPECT_EQ(stated.plan.plan, result.plans.front().plan);
  EXPECT_THAT(stated.plan.settings, IsEmpty());
  EXPECT_GT(stated.plan.estimate.step_time, stated.best.estimate.step_time);
  EXPECT_EQ(stated.best.estimate.step_time, launched.best.estimate.step_time);
}

// A setting that is stated, or that no run on the chip has confirmed, stays as it is.
TEST(SwitchedTest, NotWhereItIsStatedOrUnconfirmed) {
  StudyRequest off = Asked(kH100);
  off.question.workload.overlap.tensor_parallel = false;
  const StudyResult stated = Result(off);
  EXPECT_THAT(stated.plans.front().settings, IsEmpty());
  EXPECT_THAT(stated.warnings, Not(Contains(HasSubstr("--tp-comm-overlap"))));
  const StudyResult other = Result(Asked("nvidia-a100-sxm4-80gb"));
  EXPECT_THAT(other.plans.front().settings, IsEmpty());
  EXPECT_THAT(other.warnings, Contains(HasSubstr("no published run on this chip confirms it")));
}

// A switch within the tie is not flipped: nobody can tell that it pays.
TEST(SwitchedTest, NotWithinTheTie) {
  StudyRequest request = Asked(kH100);
  request.choice.tie_probability = 1;  // everything within 5 % is tied
  const PreparedQuestion question = Prepared(request);
  SwitchedPlans plans(question, SettingsToTurnOn(question));
  const ParallelPlan plan = Result(request).model_optimum->plan;
  const RankedPlan fastest = plans.Fastest(plan);
  const double gain = plans.Plain(plan).estimate.step_time / fastest.estimate.step_time - 1;
  EXPECT_EQ(plans.Usual(plan).settings.empty(), gain <= 0.05);
  // Without tensor parallelism it has no effect.
  EXPECT_THAT(plans.Fastest({.data_parallel = 4, .zero_stage = 1}).settings, IsEmpty());
}

// Changes of the numbers that are computed are advice.
TEST(SwitchedTest, NumericsAreAdvice) {
  StudyRequest request = Asked(kH100);
  request.dimensions = {{.name = "data_parallel", .values = {"4"}}};
  const StudyResult result = Result(request);
  EXPECT_THAT(result.warnings, Contains(HasSubstr("it changes the numbers that are computed")));
  EXPECT_THAT(result.plans.front().settings, IsEmpty());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
