#include "server/tuner/answers/pareto_front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>

#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/answers/sweep.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/exhaustive.h"
#include "tests/search_space/models.h"
#include "tests/tuner/prepared.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

// Returns Llama-2-7B on one node of eight, whose fastest plan takes nearly all of the memory.
StudyRequest FrontRequest() {
  StudyRequest request = {.question = TinyQuestion(), .pareto = true};
  request.question.model = Llama2_7b();
  request.question.workload = {.sequence_length = 4096, .global_batch_size = 64};
  request.question.cluster.pools = {Nodes(1, 8)};
  request.question.cluster.pools.front().memory_capacity = GiB(32);
  return request;
}

StudyResult Result(const StudyRequest& request, const StudyControl& control = {}) {
  return std::get<StudyResult>(RunStudy(request, Known(), control).value());
}

// The points equal those of a sweep that takes every plan which fits, with each plan once.
TEST(ParetoFrontTest, HoldsTheFastestPlanOfEachLevel) {
  StudyRequest request = FrontRequest();
  request.choice.min_fit_probability = 0;
  const std::vector<ParetoPoint> front = Result(request).pareto_front;
  ASSERT_GE(front.size(), 2U);
  const std::vector<double> levels(std::begin(kFreeMemoryLevels), std::end(kFreeMemoryLevels));
  const Sweep sweep = RunSweep(request, OwnRange(request, {1}, levels), Known(), {}).value();
  std::size_t at = 0;
  for (const SweepPoint& point : sweep.points) {
    if (!point.best.has_value()) continue;
    while (front[at].free_memory_ratio < point.free_memory_ratio) ASSERT_LT(++at, front.size());
    EXPECT_EQ(front[at].plan.plan, point.best->plan) << point.free_memory_ratio;
    EXPECT_EQ(front[at].plan.estimate, point.best->estimate);
    EXPECT_TRUE(front[at].plan.estimate.fits);
  }
  EXPECT_EQ(at + 1, front.size());
}

TEST(ParetoFrontTest, StartsWithTheFastestAndTradesTimeForMemory) {
  const StudyResult result = Result(FrontRequest());
  const std::vector<ParetoPoint>& front = result.pareto_front;
  ASSERT_FALSE(front.empty());
  EXPECT_EQ(front.front().plan.plan, result.model_optimum->plan);
  EXPECT_EQ(front.front().plan.exports, result.model_optimum->exports);
  for (std::size_t i = 0; i < front.size(); ++i) {
    const Estimate& e = front[i].plan.estimate;
    EXPECT_LE(e.reserved_memory, Scale(e.memory_capacity, 1 - front[i].free_memory_ratio));
    if (i == 0) continue;
    EXPECT_GE(e.step_time, front[i - 1].plan.estimate.step_time);
    EXPECT_GT(front[i].free_memory_ratio, front[i - 1].free_memory_ratio);
  }
}

// The answer itself does not depend on the front.
TEST(ParetoFrontTest, OnlyWhenAskedFor) {
  StudyRequest request = FrontRequest();
  const StudyResult with = Result(request);
  request.pareto = false;
  const StudyResult without = Result(request);
  EXPECT_THAT(without.pareto_front, IsEmpty());
  ASSERT_EQ(with.plans.size(), without.plans.size());
  for (std::size_t i = 0; i < with.plans.size(); ++i) {
    EXPECT_EQ(with.plans[i].plan, without.plans[i].plan);
  }
  EXPECT_EQ(with.search.evaluated_count, without.search.evaluated_count);
}

TEST(ParetoFrontTest, OfAllPrecisions) {
  StudyRequest request = FrontRequest();
  request.question.cluster.pools.front().chip = "nvidia-h100-sxm5-80gb";
  request.dimensions = {{.name = "precision", .values = {"bf16", "fp32"}}};
  const StudyResult result = Result(request);
  ASSERT_FALSE(result.pareto_front.empty());
  EXPECT_EQ(result.pareto_front.front().plan.settings, result.model_optimum->settings);
  EXPECT_EQ(result.pareto_front.front().plan.plan, result.model_optimum->plan);
}

TEST(ParetoFrontTest, OtherStrategiesAreRefused) {
  StudyRequest request = FrontRequest();
  request.strategy = "random";
  const absl::Status status = RunStudy(request, Known(), {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("strategy = random; "));
}

// Levels that a cancel leaves no time for are left out, and the answer says so.
TEST(ParetoFrontTest, WhatIsCutIsLeftOut) {
  StudyRequest request = FrontRequest();
  request.pareto = false;
  StudyResult result = Result(request);
  SearchOptions options;
  options.stop = [] { return std::optional(StopCause::kDeadline); };
  AddParetoFront(Prepared(request), options, {}, std::nullopt, result);
  ASSERT_EQ(result.pareto_front.size(), 1U);
  EXPECT_EQ(result.pareto_front.front().plan.plan, result.model_optimum->plan);
  EXPECT_THAT(result.warnings, Contains(HasSubstr("pareto_front has no point that leaves")));
}

ParetoPoint Point(double free_ratio, double seconds) {
  ParetoPoint point = {.free_memory_ratio = free_ratio};
  point.plan.estimate.step_time = Seconds(seconds);
  return point;
}

// 0.3 in 2 s beats 0.2 in 3 s; of two equally fast points the one that leaves more free stays.
TEST(FrontOfTest, NoPointIsBeaten) {
  std::vector<std::pair<double, double>> front;
  for (const ParetoPoint& point :
       FrontOf({Point(0.2, 3), Point(0, 1), Point(0.1, 1), Point(0.3, 2), Point(0, 2)})) {
    front.emplace_back(point.free_memory_ratio, point.plan.estimate.step_time.count());
  }
  EXPECT_THAT(front, testing::ElementsAre(std::pair(0.1, 1.0), std::pair(0.3, 2.0)));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
